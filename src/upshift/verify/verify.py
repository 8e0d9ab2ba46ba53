"""`upshift verify`: which runs to make, in what order, until the question is settled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from upshift.errors import Interrupted, NotBound, ProgramFailed, UpshiftError
from upshift.knobs.binding import Binding
from upshift.knobs.catalogue import BY_NAME
from upshift.knobs.change import Change
from upshift.knobs.discover import Seen, candidates
from upshift.verify.runs import Run, Side
from upshift.verify.today import wrong_today
from upshift.verify.trace import Trace
from upshift.verify.verdict import Evidence, Verdict, in_doubt, judge, usable_floor

MICRO_BATCH, GRAD_ACCUM = "micro_batch", "grad_accum"
_MOST_GUESSES = 4


@dataclass(frozen=True, kw_only=True)
class Question:
    """What the user asked."""

    now: Change
    """The command as it is."""
    other: Change | None = None
    """Another command, or None: the same with `settings`."""
    settings: Mapping[str, object]
    bindings: Mapping[str, Binding]
    steps: int = 8
    tolerance: float | None = None
    float64: bool = False
    """Run in float64 from the start."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The verdict and what it rests on."""

    question: Question
    verdict: Verdict
    a: Trace
    b: Trace
    other: Change
    bindings: Mapping[str, Binding]
    """As used, guessed ones too."""
    runs: int


def verify(question: Question, run: Run) -> Answer:
    """Make the runs and judge. Raises the error that says why there is no verdict."""
    runs = _Counted(run)
    now = Side(change=question.now, label="as it is", double=question.float64)
    a = runs(replace(now, discover=question.other is None), question.steps, True)
    steps = len(a.steps)
    places = _places(question, a)
    permuted, again = _noise(runs, now, a, steps)
    there, b, bindings = _changed(question, places, runs, steps)
    other = there.change
    evidence = Evidence(a=a, b=b, again=again, permuted=permuted, tolerance=question.tolerance)
    verdict = judge(evidence)
    if in_doubt(verdict) and not question.float64:
        evidence = _in_double(runs, evidence, now, there, steps)
        verdict = judge(evidence)
    return Answer(
        question=question,
        verdict=replace(verdict, today=wrong_today(a)),
        a=a,
        b=b,
        other=other,
        bindings={k: v for k, v in bindings.items() if k in question.settings},
        runs=runs.count,
    )


def _places(question: Question, a: Trace) -> list[dict[str, Binding]]:
    """Ways to bind the settings, the likeliest first; one where the user has said it or gives another command."""
    if question.other is not None:
        return [{}]
    observed = {MICRO_BATCH: a.micro_batch, GRAD_ACCUM: a.grad_accum}
    found: list[dict[str, Binding]] = [{}]
    for knob in question.settings:
        given = question.bindings.get(knob)
        choices = [given] if given is not None else _guesses(question.now, knob, observed[knob], a.seen)
        if choices:
            found = [{**before, knob: choice} for before in found for choice in choices[:_MOST_GUESSES]]
        elif knob != GRAD_ACCUM or len(question.settings) == 1:  # it may follow the micro-batch by itself
            raise NotBound(
                f"nothing in the command, its config files or its code looks like {knob} = {observed[knob]}",
                hint=_say_where(knob),
            )
    return found[: 2 * _MOST_GUESSES]


def _guesses(now: Change, knob: str, value: object, seen: Seen | None) -> list[Binding]:
    """Places named like the knob that hold the observed value, the likeliest first."""
    return [c.binding for c in candidates(BY_NAME[knob], value, now, seen)] if seen is not None else []


def _say_where(knob: str) -> str:
    return f"say where it is set: --bind {knob}=--flag, --bind {knob}=config.yaml:key or --bind {knob}=train.py:NAME"


def _changed(
    question: Question, places: list[dict[str, Binding]], runs: _Counted, steps: int
) -> tuple[Side, Trace, dict[str, Binding]]:
    """The changed side: of the likely places, the first that shows its effect."""
    failed: UpshiftError | None = None
    dead: set[tuple[str, Binding]] = set()
    for bindings in places:
        if any(place in dead for place in bindings.items()):
            continue
        other = question.other or question.now
        for knob, binding in bindings.items():
            other = binding.apply(other, question.settings[knob])
        there = Side(change=other, label=_label(bindings, failed), double=question.float64)
        b = runs(there, steps, False)
        wrong = _no_effect(question, b)
        if wrong is None:
            return there, b, bindings
        shown = {MICRO_BATCH: b.micro_batch, GRAD_ACCUM: b.grad_accum}[wrong]
        if wrong in bindings:
            dead.add((wrong, bindings[wrong]))
            through = f"set to {question.settings[wrong]} through {bindings[wrong]}"
        else:
            through = f"to become {question.settings[wrong]} by itself"
        failed = failed or NotBound(
            f"{wrong} was {through}, and the run shows {shown}", hint=_say_where(wrong)
        )
    assert failed is not None
    raise failed


def _label(bindings: Mapping[str, Binding], failed: UpshiftError | None) -> str:
    return "changed" if failed is None else "changed through " + ", ".join(str(b) for b in bindings.values())


def _no_effect(question: Question, b: Trace) -> str | None:
    """The knob that was set and does not show."""
    seen = {MICRO_BATCH: b.micro_batch, GRAD_ACCUM: b.grad_accum}
    return next((k for k, value in question.settings.items() if k in seen and seen[k] != value), None)


class _Counted:
    def __init__(self, run: Run) -> None:
        self.run, self.count = run, 0

    def __call__(self, side: Side, steps: int, whole_epoch: bool) -> Trace:
        self.count += 1
        return self.run(side, steps, whole_epoch)


def _noise(runs: _Counted, now: Side, a: Trace, steps: int) -> tuple[Trace | None, Trace | None]:
    """(the same with micro-batches permuted, the same again): the first if it can be had, else the second."""
    taken = sum(len(m.indices) for s in a.steps for m in s.own_micro)
    made = sum(len(s.own_micro) for s in a.steps)
    window = round(taken / made) * (a.grad_accum or 1) if made else 0
    if window:
        permuted = runs(replace(now, permute=window, label="micro-batches permuted"), steps, False)
        if usable_floor(a, permuted):
            return permuted, None
    return None, runs(replace(now, label="again"), steps, False)


def _in_double(runs: _Counted, evidence: Evidence, now: Side, there: Side, steps: int) -> Evidence:
    """Both sides in float64; a program that cannot do it leaves the doubt, and says so."""
    try:
        a64 = runs(replace(now, double=True, label="in float64"), steps, False)
        b64 = runs(replace(there, double=True, label="changed, in float64"), steps, False)
    except ProgramFailed as error:
        last = (error.output.strip().splitlines() or [""])[-1]
        return replace(evidence, notes=(f"float64 could not be tried: {last[:160]}",))
    except Interrupted:
        raise
    except UpshiftError as error:
        return replace(evidence, notes=(f"float64 could not be tried: {error.message}",))
    return replace(evidence, a64=a64, b64=b64)
