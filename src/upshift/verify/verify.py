"""`upshift verify`: which runs to make, in what order, until the question is settled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from upshift.errors import NotBound, ProgramFailed, UpshiftError
from upshift.knobs.binding import Binding
from upshift.knobs.change import Change
from upshift.knobs.guess import guess
from upshift.verify.runs import Run, Side
from upshift.verify.today import wrong_today
from upshift.verify.trace import Trace
from upshift.verify.verdict import Evidence, Verdict, in_doubt, judge, usable_floor

MICRO_BATCH, GRAD_ACCUM = "micro_batch", "grad_accum"


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
    a = runs(now, question.steps, True)
    steps = len(a.steps)
    bindings = dict(question.bindings)
    if question.other is None:
        bindings = {**guess(question.now, question.settings, a, bindings), **bindings}
        other = question.now
        for knob, value in question.settings.items():
            other = bindings[knob].apply(other, value)
    else:
        other = question.other
    permuted, again = _noise(runs, now, a, steps)
    there = Side(change=other, label="changed", double=question.float64)
    b = runs(there, steps, False)
    _took_effect(question, bindings, a, b)
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
    except UpshiftError as error:
        return replace(evidence, notes=(f"float64 could not be tried: {error.message}",))
    return replace(evidence, a64=a64, b64=b64)


def _took_effect(question: Question, bindings: Mapping[str, Binding], a: Trace, b: Trace) -> None:
    """What was set must be what is seen."""
    seen = {MICRO_BATCH: b.micro_batch, GRAD_ACCUM: b.grad_accum}
    for knob, value in question.settings.items():
        if knob in seen and seen[knob] != value:
            raise NotBound(
                f"{knob} was set to {value} through {bindings[knob]}, and the run shows {seen[knob]}",
                hint=f"say where the command sets it: --bind {knob}=--flag, --bind {knob}=config.yaml:key or "
                f"--bind {knob}=train.py:NAME",
            )
