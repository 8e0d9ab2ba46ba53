"""Evaluating, saving and logging less often, where they eat the run: the same training with less beside it."""

from __future__ import annotations

import math
from dataclasses import replace

from upshift.errors import UpshiftError
from upshift.knobs.counted import EVAL_EVERY, LOG_EVERY, SAVE_EVERY
from upshift.knobs.discover import Seen
from upshift.plan import Beside
from upshift.search.bench import Bench, Standing
from upshift.search.counting import Count, first_count
from upshift.search.others import Option, taken, tried

_EATS = 0.05
_MOST = 0.035
"""Share of the run that is left to each of them (CheckFreq's figure for checkpoints)."""
_WHY = "less time beside the steps; what waits for it (early stopping, the best model) looks less often"
UNSEEN = {"evaluation": EVAL_EVERY, "saving": SAVE_EVERY}
"""What may come too seldom for a short trial to see it."""
_EARLY = 3
"""Steps after which the first one comes, in the run that shows what they cost."""


def turn(bench: Bench, best: Standing, seen: Seen) -> Standing:
    """Each as seldom as it takes to cost next to nothing."""
    for knob, share in (
        (EVAL_EVERY, best.trial.beside.get("evaluation", 0.0)),
        (SAVE_EVERY, best.trial.beside.get("saving", 0.0)),
        (LOG_EVERY, best.trial.shares.get("logging", 0.0)),
    ):
        if share < _EATS or not bench.request.wants(knob.name) or not bench.time_for():
            continue
        for count in first_count(knob, best.change, seen, least=1):
            seldom = count.value * _times(share)
            best = tried(bench, best, _option(count, seldom), seldom)
    return _unseen(bench, best, seen)


def _option(count: Count, seldom: int) -> Option:
    knob = replace(count.knob, why=_WHY)
    return Option(knob=knob, binding=count.binding, now=count.value, values=(seldom,))


def _times(share: float) -> int:
    """How many times as seldom, so that little of the run is left to it."""
    return math.ceil(share / (1 - share) / _MOST)


def _unseen(bench: Bench, best: Standing, seen: Seen) -> Standing:
    """The same for what comes too seldom for a short trial: priced in a run in which it comes early."""
    accum = best.trial.grad_accum or 1
    early = _EARLY * accum
    wanted = {
        what: count
        for what, knob in UNSEEN.items()
        if what not in best.trial.beside and bench.request.wants(knob.name)
        for count in first_count(knob, best.change, seen)
        if count.value > early
    }
    if not wanted or not bench.time_for():
        return best
    probe = best.change
    try:
        for count in wanted.values():
            probe = count.binding.apply(probe, early)
    except UpshiftError:
        return best
    bench.tell("what do its evaluations and saves cost?")
    for what, price in bench.ways.price(probe, frozenset(wanted), 2 * early).items():
        unit = _unit(price.steps, accum)
        if unit is not None:
            count = wanted[what]
            best = _priced(bench, best, what, count, price.seconds, every=count.value * unit)
    return best


def _unit(steps: int, accum: int) -> float | None:
    """Optimizer steps that one of the count stands for, by when the first came; None: something else made it come.

    Some count from one, some from nought.
    """
    if abs(steps - _EARLY * accum) <= 1:
        return 1.0
    return 1 / accum if abs(steps - _EARLY) <= 1 else None


def _priced(bench: Bench, best: Standing, what: str, count: Count, seconds: float, every: float) -> Standing:
    """With it made so seldom that it costs next to nothing, if it eats the run; every so many optimizer steps."""
    steps = every * (best.trial.step_seconds or 0.0)
    share = seconds / (seconds + steps)
    bench.tell(f"{what}: {seconds:.2g} s every {every:.0f} steps, {share:.0%} of the run")
    times = 1
    if share >= _EATS and bench.time_for():
        rarer = _rarer(bench, best, count, _times(share), seconds, steps)
        if rarer is not None:
            best, times = rarer, _times(share)
    bench.beside_steps.append(Beside(what=what, seconds=seconds, every=every, every_after=every * times))
    return best


def _rarer(
    bench: Bench, best: Standing, count: Count, times: int, seconds: float, steps: float
) -> Standing | None:
    seldom = count.value * times
    changed = count.binding.apply(best.change, seldom)
    trial = bench.attempt(changed, {**best.values, count.knob.name: seldom})
    if not trial.ok or trial.effective_batch != best.trial.effective_batch:
        bench.reject(f"{count.knob.name} → {seldom}", trial.why or trial.outcome)
        return None
    gain = (steps + seconds) / (steps + seconds / times)
    return taken(bench, best, _option(count, seldom), trial, changed, gain, best.luck)
