"""Every other knob, one after the other on top of the best so far: taken if it is faster and proven."""

from __future__ import annotations

from dataclasses import dataclass

from upshift.errors import UpshiftError
from upshift.knobs.binding import Variable
from upshift.knobs.discover import Candidate, Seen, candidates
from upshift.knobs.knob import NUMERIC, ORDER, OTHERS, THREADS, Knob
from upshift.plan import Setting
from upshift.search.bench import WORTH, Bench, Request, Standing
from upshift.search.trial import Trial

_WAITING = 0.03
"""Share of a step below which making batches faster cannot pay."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """A knob, where it is set, and what to try."""

    knob: Knob
    candidate: Candidate
    values: tuple[object, ...]


def turn(bench: Bench, best: Standing, seen: Seen) -> Standing:
    """The best of what each of them offers."""
    for knob in (THREADS, *OTHERS):
        option = _option(bench, knob, best, seen)
        if option is None:
            continue
        for value in option.values:
            if not bench.time_for():
                return best
            best = _tried(bench, best, option, value)
    return best


def _tried(bench: Bench, best: Standing, option: Option, value: object) -> Standing:
    """With the knob turned, if that pays and is the same training; else as it was."""
    knob = option.knob
    what = f"{knob.name} → {value}"
    try:
        changed = option.candidate.binding.apply(best.change, value)
    except UpshiftError as error:
        bench.reject(what, error.message)
        return best
    values = {**best.values, knob.name: value}
    trial = bench.attempt(changed, values)
    if not trial.ok:
        bench.reject(what, trial.why or trial.outcome)
        return best
    if trial.effective_batch != best.trial.effective_batch:
        bench.reject(what, f"the effective batch became {trial.effective_batch}")
        return best
    gain = (trial.samples_per_second or 0.0) / (best.trial.samples_per_second or 1.0)
    if knob.name not in bench.request.fixed:
        if gain < WORTH:
            bench.reject(what, f"{gain:.2f}×")
            return best
        too_late = _pays_too_late(best.trial, trial, bench.request.steps_remaining)
        if too_late:
            bench.reject(what, too_late)
            return best
    verdict = bench.proven(changed, values, what)
    if verdict is None:
        return best
    before = next((s for s in best.settings if s.knob == knob.name), None)
    setting = Setting(
        knob=knob.name,
        before=before.before if before else option.candidate.value,
        after=value,
        effect=knob.effect,
        gain=(before.gain or 1.0) * gain if before else gain,
        reason=knob.why,
        binding=option.candidate.binding,
        verdict=verdict,
    )
    kept = tuple(s for s in best.settings if s.knob != knob.name)
    return Standing(trial=trial, change=changed, settings=(*kept, setting))


def _pays_too_late(before: Trial, after: Trial, steps: int | None) -> str:
    """A start that takes longer (compiling) must be earned back by the steps that remain."""
    if steps is None or None in (before.settled_seconds, after.settled_seconds):
        return ""
    assert before.settled_seconds is not None and after.settled_seconds is not None
    assert before.step_seconds is not None and after.step_seconds is not None
    dearer = after.settled_seconds - before.settled_seconds
    saved = before.step_seconds - after.step_seconds
    needed = dearer / saved if saved > 0 else float("inf")
    return f"its longer start pays after {needed:.0f} steps; {steps} remain" if needed >= steps else ""


def _option(bench: Bench, knob: Knob, best: Standing, seen: Seen) -> Option | None:
    """What to try of this knob; None: nothing."""
    request = bench.request
    if not request.wants(knob.name) or knob.effect in _too_far(request):
        return None
    if knob is THREADS:
        candidate: Candidate | None = _threads(bench)
    elif knob.name in request.bindings:
        binding = request.bindings[knob.name]
        candidate = Candidate(binding=binding, value=binding.now(best.change), where="given")
    else:
        candidate = next(iter(candidates(knob, None, best.change, seen)), None)
    if knob.name in request.fixed:
        if candidate is None:
            bench.reject(f"{knob.name} → {request.fixed[knob.name]}", "no place that sets it was found")
            return None
        wanted = request.fixed[knob.name]
        return Option(knob=knob, candidate=candidate, values=() if candidate.value == wanted else (wanted,))
    if candidate is None or not _may_pay(knob, candidate, best.trial):
        return None
    values = tuple(knob.values(candidate.value))
    return Option(knob=knob, candidate=candidate, values=values)


def _too_far(request: Request) -> tuple[str, ...]:
    """Effects that were not asked for."""
    return (
        *((NUMERIC,) if request.plan == "conservative" else ()),
        *((ORDER, NUMERIC) if request.strict else ()),
    )


def _may_pay(knob: Knob, candidate: Candidate, trial: Trial) -> bool:
    if knob.name == "workers":
        return (trial.data_share or 0.0) >= _WAITING
    if knob.name == "persistent_workers":
        return bool(trial.workers)
    if knob.name == "checkpointing":
        return candidate.value is True  # turning it on saves memory, not time
    return True


def _threads(bench: Bench) -> Candidate | None:
    """OMP_NUM_THREADS: small models are often faster on one."""
    cores = bench.request.cores
    now = bench.request.threads or cores
    return (
        Candidate(binding=Variable("OMP_NUM_THREADS"), value=now, where="environment") if cores > 1 else None
    )
