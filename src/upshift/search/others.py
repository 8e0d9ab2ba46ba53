"""Every other knob, one after the other on top of the best so far: taken if it is faster and proven."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from upshift.errors import UpshiftError
from upshift.knobs.allocators import Allocator
from upshift.knobs.binding import Binding, Lever, Variable
from upshift.knobs.catalogue import ALLOCATORS, THREADS
from upshift.knobs.change import Change
from upshift.knobs.discover import Candidate, Seen, candidates
from upshift.knobs.knob import NUMERIC, ORDER, Knob
from upshift.plan import Setting
from upshift.search.bench import CONSERVATIVE, SURE, WORTH, Bench, Request, Standing
from upshift.search.trial import Trial, rate
from upshift.search.worth import LEAST, bound

_WORTH_A_LEVER = 1.1
"""What only upshift can carry must bring more: the run would no longer go without it."""
_DOUBTFUL = 0.8
"""What was slower than that did not just meet a lucky start of the best."""
_MUCH = 0.1
"""Share of a step: what could save no more is refused by one start."""
_NEAR = 0.8
"""Of the fastest."""
_WITH_A_LOOK = 2.5
"""What a knob that pays costs, in trials: the trial, a second look beside the best, the proof."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """A knob, where it is set, and what to try."""

    knob: Knob
    binding: Binding
    now: object
    """Its value, None where it is left to its default."""
    values: tuple[object, ...]


def turn(bench: Bench, best: Standing, seen: Seen, knobs: Sequence[Knob]) -> Standing:
    """The best of what each of them offers."""
    for knob in knobs:
        option = _option(bench, knob, best, seen)
        if option is None:
            continue
        for value in option.values:
            if bench.tried({**best.values, knob.name: value}):
                continue
            if not bench.time_for(_WITH_A_LOOK, knob.start_seconds):
                return best
            best = tried(bench, best, option, value)
    return best


def tried(bench: Bench, best: Standing, option: Option, value: object) -> Standing:
    """With the knob turned, if that pays and is the same training; else as it was."""
    knob = option.knob
    what = f"{knob.name} → {value}"
    try:
        changed = option.binding.apply(best.change, value)
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
    if knob is THREADS and trial.threads not in (None, value):
        bench.reject(what, f"set, and the program has {trial.threads}: it says so itself")
        return best
    gain = rate(trial, values) / (best.rate(values) or 1.0)
    luck = None
    if knob.name not in bench.request.fixed:
        least = _WORTH_A_LEVER if knob.lever else WORTH
        if _DOUBTFUL <= gain < least and bound(knob, option.now, best.trial) >= _MUCH:
            best = bench.on_another_start(best)
            gain = rate(trial, values) / (best.rate(values) or 1.0)
        if gain < least:
            bench.reject(what, f"{gain:.2f}×")
            return best
        if gain < SURE:
            again = bench.beside((best.change, best.values), (changed, values), least, gain)
            if again is None or again < least:
                second = f"{again:.2f}×" if again is not None else "failed"
                bench.reject(what, f"{gain:.2f}× at first, {second} beside the best")
                return best
            # A trial that won is likelier to have been a lucky start.
            luck, gain = gain / again, again
        too_late = _pays_too_late(best.trial, trial, bench.request.steps_remaining)
        if too_late:
            bench.reject(what, too_late)
            return best
    return taken(bench, best, option, trial, changed, gain, luck) or best


def regardless(bench: Bench, best: Standing, seen: Seen, knob: Knob) -> Standing | None:
    """With one of the values of a knob that were all refused for their speed, for what pays together.

    The last of those that are near the fastest: what makes them all slow may hide what tells them apart.
    """
    option = _option(bench, knob, best, seen)
    whole = best.trial.effective_batch
    turned = [t for t in bench.trials if t.ok and _only(knob, best.values, t.settings)]
    tried = [t for t in turned if t.effective_batch == whole]
    if option is None or not tried:
        return None
    near = _NEAR * max(rate(t, t.settings) for t in tried)
    trial = [t for t in tried if rate(t, t.settings) >= near][-1]
    changed = option.binding.apply(best.change, trial.settings[knob.name])
    return taken(bench, best, option, trial, changed, gain=None, luck=None)


def _only(knob: Knob, before: Mapping[str, object], after: Mapping[str, object]) -> bool:
    """Is this knob all that has changed?"""
    return knob.name in after and {**before, knob.name: after[knob.name]} == dict(after)


def taken(
    bench: Bench,
    best: Standing,
    option: Option,
    trial: Trial,
    changed: Change,
    gain: float | None,
    luck: float | None,
) -> Standing | None:
    """The best with this knob turned as in this trial, if that is proven."""
    knob = option.knob
    value = trial.settings[knob.name]
    verdict = bench.proven(changed, trial.settings, f"{knob.name} → {value}")
    if verdict is None:
        return None
    bench.forgive(knob.name, value)
    before = next((s for s in best.settings if s.knob == knob.name), None)
    setting = Setting(
        knob=knob.name,
        before=before.before if before else option.now,
        after=value,
        effect=knob.effect,
        gain=gain * (before.gain or 1.0) if before and gain else gain,
        reason=knob.reason(option.now, value),
        binding=option.binding,
        verdict=verdict,
    )
    kept = tuple(s for s in best.settings if s.knob != knob.name)
    return Standing(trial=trial, change=changed, settings=(*kept, setting), luck=luck)


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
    if not request.wants(knob.name) or knob.effect in _too_far(request) or knob.stands_for in best.values:
        return None
    candidate = _place(bench, knob, best, seen)
    if knob.name in request.fixed:
        wanted = request.fixed[knob.name]
        if candidate is None:
            bench.reject(f"{knob.name} → {wanted}", "no place that sets it was found")
            return None
        values: tuple[object, ...] = () if candidate.value == wanted else (wanted,)
    elif candidate is None:
        return None
    else:
        share = bound(knob, candidate.value, best.trial)
        if share < LEAST or not bench.worth_a_trial(best.trial, share):
            return None
        turned_from = [s.before for s in best.settings if s.knob == knob.name]
        values = tuple(v for v in knob.values(candidate.value) if v not in turned_from)
    return Option(knob=knob, binding=candidate.binding, now=candidate.value, values=values)


def _place(bench: Bench, knob: Knob, best: Standing, seen: Seen) -> Candidate | None:
    """Where it is set: as the user says, in the environment, or at the likeliest place of all that were seen."""
    given = bench.request.bindings.get(knob.name)
    if given is not None:
        return Candidate(binding=given, value=given.now(best.change), where="given")
    if knob in ALLOCATORS:
        allocator = Allocator()
        return Candidate(binding=allocator, value=allocator.now(best.change), where="environment")
    if knob.variable:
        variable = Variable(knob.variable)
        now: object = variable.now(best.change)
        if knob is THREADS:
            now = best.trial.threads or int(str(now or bench.request.threads or bench.request.cores))
        return Candidate(binding=variable, value=now, where="environment")
    if knob.lever:
        lever = Lever(knob.lever)
        return Candidate(binding=lever, value=lever.now(best.change), where="inside the run")
    places = candidates(knob, None, best.change, seen)
    return next((c for c in places if knob.values(c.value)), next(iter(places), None))


def _too_far(request: Request) -> tuple[str, ...]:
    """Effects that were not asked for."""
    return (
        *((NUMERIC,) if request.plan == CONSERVATIVE else ()),
        *((ORDER, NUMERIC) if request.strict else ()),
    )
