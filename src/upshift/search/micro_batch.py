"""Micro-batch and accumulation: the same samples a step, in fewer calls. Bound, proven, then searched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from upshift.errors import UpshiftError
from upshift.knobs.binding import Binding
from upshift.knobs.catalogue import GRAD_ACCUM, MICRO_BATCH, WHOLE_BATCH
from upshift.knobs.change import Change
from upshift.knobs.discover import Seen, candidates
from upshift.knobs.knob import EXACT, Knob
from upshift.plan import Setting
from upshift.search.bench import WORTH, Bench, Standing
from upshift.search.counting import Count, counted_in_micro_batches, counted_with_them
from upshift.search.endurance import endures
from upshift.search.model import LONG_STRIDE, SHORT_STRIDE, next_micro_batch
from upshift.search.trial import OOM, Trial
from upshift.verify.verdict import Verdict

_LOADER_BOUND = 0.5
_MOST_BINDINGS = 6
_APART = 1.15
"""Of two micro-batches that both pay: what is so much faster needs no second look, for the wrong one costs little."""


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Where micro-batch and accumulation were shown to be set."""

    micro_batch: Binding | None
    grad_accum: Binding | None
    """None, of either: it follows from the other."""
    effective: int
    """Samples of a step, on one rank."""
    accum: int
    """The accumulation as it is."""
    counts: tuple[Count, ...] = ()
    """What the script counts in micro-batches, and must follow them."""

    def set(self, change: Change, size: int) -> Change:
        """The change with this micro-batch, and all that follows."""
        if self.micro_batch is not None:
            change = self.micro_batch.apply(change, size)
        if self.grad_accum is not None:
            change = self.grad_accum.apply(change, self.effective // size)
        for count in self.counts:
            change = count.binding.apply(change, count.after(self.accum, self.effective // size))
        return change

    def values(self, size: int) -> dict[str, object]:
        """Settings by knob."""
        values: dict[str, object] = {MICRO_BATCH.name: size}
        if self.grad_accum is not None:
            values[GRAD_ACCUM.name] = self.effective // size
        return values


def waits_for_data(trial: Trial) -> bool:
    """Is the loader what holds the run up?"""
    return trial.data_share > _LOADER_BOUND


def turn(bench: Bench, best: Standing, seen: Seen, *, waiting: bool = False) -> Standing:
    """The fastest division of the effective batch; `waiting`: even if the run waits for its data."""
    if not bench.request.wants(MICRO_BATCH.name):
        return best
    micro, accum = best.trial.micro_batch, best.trial.grad_accum
    if micro is None or accum is None:
        bench.reject(MICRO_BATCH.name, "the batch could not be observed")
        return best
    if waits_for_data(best.trial) and not waiting:
        share = f"{best.trial.data_share:.0%}"
        bench.reject(MICRO_BATCH.name, f"{share} of a step waits for data: the loader comes first")
        return best
    target = _first_target(bench, best.trial)
    if target is None:
        return best
    bound, first = bind(bench, best, seen, target)
    if bound is None or first is None:
        return best
    failed: list[int] = []
    while first.outcome == OOM:
        # What does not fit can be proven neither.
        failed.append(target)
        bench.reject(f"micro_batch → {target}", "does not fit in memory")
        smaller = _first_target(bench, best.trial, failed)
        if smaller is None or not bench.time_for():
            return best
        target = smaller
        first = bench.attempt(bound.set(best.change, target), {**best.values, **bound.values(target)})
    bound, verdict = _proven(bench, best.change, bound, target, seen)
    if verdict is None:
        return best
    tried = _search(bench, best, bound, target, first, failed, seen)
    size = _fastest(bench, best, bound, tried)
    rates = {
        b: (t.samples_per_second or 0.0) / (best.trial.samples_per_second or 1.0) for b, t in tried.items()
    }
    if size == micro or (rates[size] < WORTH and MICRO_BATCH.name not in bench.request.fixed):
        told = ", ".join(f"{b}: {r:.2f}×" for b, r in sorted(rates.items()) if b != micro)
        bench.reject(MICRO_BATCH.name, f"no other micro-batch is faster ({told})")
        return best
    return Standing(
        trial=tried[size],
        change=bound.set(best.change, size),
        settings=(*best.settings, *_settings(bound, micro, size, rates[size], verdict)),
    )


def _first_target(bench: Bench, trial: Trial, failed: Sequence[int] = ()) -> int | None:
    """The micro-batch to begin with, below those that failed; None: there is none, and the book says why."""
    assert trial.micro_batch is not None and trial.grad_accum is not None
    micro, effective = trial.micro_batch, trial.micro_batch * trial.grad_accum
    if MICRO_BATCH.name in bench.request.fixed:
        wanted = bench.request.fixed[MICRO_BATCH.name]
        if not isinstance(wanted, int) or wanted < 1 or effective % wanted:
            bench.reject(
                f"micro_batch → {wanted}", f"is no divisor of the effective batch, which is {effective}"
            )
            return None
        return wanted if wanted != micro and not failed else None
    target = next_micro_batch([(micro, trial.samples_per_second or 0.0)], failed, effective, _stride(bench))
    if target is None and not failed:
        bench.reject(MICRO_BATCH.name, f"{micro} × {trial.grad_accum} is all one batch already")
    return target


def _search(
    bench: Bench,
    best: Standing,
    bound: Bound,
    target: int,
    first: Trial,
    failed: list[int],
    seen: Seen,
) -> dict[int, Trial]:
    """Trials by micro-batch, the one as it is among them; the fastest has room for the longest batch too."""
    micro = best.trial.micro_batch
    assert micro is not None
    tried = {micro: best.trial}
    size, trial = target, first
    while True:
        if trial.ok and trial.effective_batch == best.trial.effective_batch:
            tried[size] = trial
        else:
            failed.append(size)
            if trial.outcome == OOM:
                bench.reject(f"micro_batch → {size}", "does not fit in memory")
        following: int | None = None
        if MICRO_BATCH.name not in bench.request.fixed and bench.time_for():
            following = next_micro_batch(_points(tried), failed, bound.effective, _stride(bench))
        while following is None:
            fastest = max(tried, key=lambda b: tried[b].samples_per_second or 0.0)
            changed = bound.set(best.change, fastest)
            if fastest <= micro or endures(bench, changed, seen, f"micro_batch → {fastest}"):
                return tried
            failed.append(fastest)
            tried = {b: t for b, t in tried.items() if b < fastest}
            following = next_micro_batch(_points(tried), failed, bound.effective, _stride(bench))
        size = following
        trial = bench.attempt(bound.set(best.change, size), {**best.values, **bound.values(size)})


def _fastest(bench: Bench, best: Standing, bound: Bound, tried: dict[int, Trial]) -> int:
    """The two that were fastest once more beside each other, where a single trial of each does not tell."""
    ranked = sorted(tried, key=lambda b: tried[b].samples_per_second or 0.0, reverse=True)
    if best.trial.micro_batch in ranked[:2] or not bench.time_for(2):
        return ranked[0]
    first, second = ranked[:2]
    if (tried[first].samples_per_second or 0.0) > _APART * (tried[second].samples_per_second or 0.0):
        return first
    small, large = sorted((first, second))
    before, after = ((bound.set(best.change, b), {**best.values, **bound.values(b)}) for b in (small, large))
    ratio = bench.beside(before, after, least=1.0)
    if ratio is None:
        return first
    bench.tell(f"micro_batch {large} beside {small}: {ratio:.2f}×")
    return large if ratio > 1 else small


def _stride(bench: Bench) -> int:
    return SHORT_STRIDE if bench.limited else LONG_STRIDE


def _points(tried: dict[int, Trial]) -> list[tuple[int, float]]:
    return [(b, t.samples_per_second or 0.0) for b, t in tried.items()]


def _settings(bound: Bound, micro: int, size: int, gain: float, verdict: Verdict) -> Iterator[Setting]:
    def setting(knob: str, before: object, after: object, binding: Binding, why: str) -> Setting:
        return Setting(
            knob=knob,
            before=before,
            after=after,
            effect=EXACT,
            gain=gain if binding == (bound.micro_batch or bound.grad_accum) else None,
            reason=why,
            binding=binding,
            verdict=verdict,
        )

    accum = bound.effective // size
    if bound.micro_batch is not None:
        yield setting(MICRO_BATCH.name, micro, size, bound.micro_batch, MICRO_BATCH.why)
    if bound.grad_accum is not None:
        why = GRAD_ACCUM.why if bound.micro_batch is not None else MICRO_BATCH.why
        yield setting(GRAD_ACCUM.name, bound.accum, accum, bound.grad_accum, why)
    for count in bound.counts:
        after = count.after(bound.accum, accum)
        yield setting(count.knob.name, count.value, after, count.binding, count.knob.why)


# ---- is it the same training? ----


def _proven(
    bench: Bench, change: Change, bound: Bound, target: int, seen: Seen
) -> tuple[Bound, Verdict | None]:
    """The verdict on the first target; with what is counted in micro-batches brought along, if that mends it."""
    what = f"micro_batch → {target}"
    verdict = bench.ask(bound.set(change, target), bound.values(target))
    if verdict is not None and verdict.cause == "schedule":
        schedule = counted_with_them(change, seen, bound.counts)
        if schedule:
            bench.tell("the schedule is counted in micro-batches: with its steps brought along")
            with_schedule = replace(bound, counts=(*bound.counts, *schedule))
            again = bench.ask(with_schedule.set(change, target), with_schedule.values(target))
            if again is not None and bench.accepts(again):
                return with_schedule, again
    if verdict is not None and bench.accepts(verdict):
        return bound, verdict
    bench.reject(what, bench.refusal(verdict))
    return bound, None


# ---- where are they set? ----


def bind(bench: Bench, best: Standing, seen: Seen, target: int) -> tuple[Bound | None, Trial | None]:
    """Try candidates until a run shows what was set. Also the trial that showed it."""
    trial = best.trial
    assert trial.micro_batch is not None and trial.grad_accum is not None
    effective = trial.micro_batch * trial.grad_accum
    attempts = 0
    dead: set[str] = set()
    alone_fails = False
    counts: tuple[Count, ...] | None = None
    for batch, accumulation in _pairs_of_places(bench, best, seen):
        if (batch is not None and str(batch) in dead) or (accumulation is None and alone_fails):
            continue
        if attempts == _MOST_BINDINGS or not bench.time_for():
            break
        attempts += 1
        if counts is None:
            counts = counted_in_micro_batches(bench, best.change, trial.grad_accum, seen)
        bound = Bound(
            micro_batch=batch,
            grad_accum=accumulation,
            effective=effective,
            accum=trial.grad_accum,
            counts=counts,
        )
        try:
            changed = bound.set(best.change, target)
        except UpshiftError as error:
            bench.reject(str(batch or accumulation), error.message)
            continue
        shown = bench.attempt(changed, {**best.values, **bound.values(target)})
        if shown.outcome == OOM:
            return bound, shown
        if not shown.ok:
            bench.reject(
                f"micro_batch → {target} through {batch or accumulation}", shown.why or shown.outcome
            )
        elif batch is None and shown.micro_batch != target:
            bench.reject(f"{accumulation} alone", f"the micro-batch became {shown.micro_batch}")
        elif shown.micro_batch != target:
            dead.add(str(batch))
            bench.reject(str(batch), "set, and the micro-batch stayed what it was")
        elif shown.effective_batch == trial.effective_batch:
            return bound, shown
        elif accumulation is not None:
            bench.reject(str(accumulation), f"set, and the effective batch became {shown.effective_batch}")
        else:
            alone_fails = True  # so would another place of the same setting
            bench.reject(f"{batch} alone", f"the effective batch became {shown.effective_batch}")
    if not attempts and bench.time_for():
        bench.reject(
            MICRO_BATCH.name,
            "no place that sets it was found; say it with --bind micro_batch=… and --bind grad_accum=…",
        )
    return None, None


def _pairs_of_places(
    bench: Bench, best: Standing, seen: Seen
) -> Iterator[tuple[Binding | None, Binding | None]]:
    """(where the batch is set, where the accumulation is) in the order of likelihood. None: it follows."""
    given = bench.request.bindings
    batches = _places(MICRO_BATCH, best.trial.micro_batch, best.change, seen, given)
    accumulations = _places(GRAD_ACCUM, best.trial.grad_accum, best.change, seen, given)
    samples = (best.trial.micro_batch or 1) * (best.trial.grad_accum or 1)
    follows = GRAD_ACCUM.name not in given and any(
        isinstance(place.value, int) and place.value >= samples
        for place in candidates(WHOLE_BATCH, None, best.change, seen)
    )
    for batch in batches:
        # What belongs together is set together. Stable: otherwise the order of likelihood stays.
        others = [place for place in accumulations if place != batch]
        nearest = sorted(others, key=lambda place: _home(place) != _home(batch))
        for accumulation in [None, *nearest] if follows else [*nearest, None]:
            yield batch, accumulation
    # The batch that is set may be that of a step, cut into as many pieces as the accumulation says.
    if MICRO_BATCH.name not in given and candidates(MICRO_BATCH, samples, best.change, seen):
        for place in accumulations:
            yield None, place


def _home(place: Binding | None) -> str:
    """All but the name itself: the command line, a section of a file, a class or a dict."""
    return re.sub(r"[\w-]+\W*$", "", str(place))


def _places(
    knob: Knob, value: object, change: Change, seen: Seen, given: Mapping[str, Binding]
) -> list[Binding]:
    if knob.name in given:
        return [given[knob.name]]
    return [c.binding for c in candidates(knob, value, change, seen)]
