"""Limits and cadences: does the script count them in optimizer steps or in micro-batches?

`max_steps: 1000` may mean either, and nothing in the text says which. In micro-batches, another accumulation is
another length of training. So a run is let go with small numbers: with a limit of six times the accumulation it ends
after six optimizer steps, or does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from upshift.errors import UpshiftError
from upshift.knobs.binding import Binding
from upshift.knobs.change import Change
from upshift.knobs.counted import EVAL_EVERY, LIMIT, SAVE_EVERY, SCHEDULE
from upshift.knobs.discover import Seen, candidates
from upshift.knobs.knob import Knob
from upshift.plan import Length
from upshift.search.bench import Bench, Standing
from upshift.search.trial import Trial

_STEPS = 6
_LONGEST = 8
"""Optimizer steps until the question is settled."""
_OFTEN = _STEPS - 1
"""With a cadence of one accumulation: so many of the first steps have it beside them if it counts micro-batches."""


@dataclass(frozen=True, kw_only=True)
class Count:
    """A number of micro-batches in the user's settings."""

    knob: Knob
    binding: Binding
    value: int

    def after(self, accum: int, new_accum: int) -> int:
        """The same number of samples, with another accumulation."""
        return max(1, self.value * new_accum // accum)


def counted_in_micro_batches(bench: Bench, change: Change, accum: int, seen: Seen) -> tuple[Count, ...]:
    """Limit and cadences that are. Found out by one short run, where there is anything to find out."""
    if accum < 2:
        return ()
    found = [c for knob in (LIMIT, EVAL_EVERY, SAVE_EVERY) for c in first_count(knob, change, seen)]
    if not found or not bench.time_for():
        return ()
    probe = change
    try:
        for count in found:
            probe = count.binding.apply(probe, accum * (_STEPS if count.knob is LIMIT else 1))
    except UpshiftError:
        return ()
    bench.tell("what are its limits and cadences counted in?")
    shown = bench.ways.count(probe, _LONGEST)
    micro = {
        LIMIT.name: shown.ended and shown.steps <= _STEPS + 1,
        EVAL_EVERY.name: shown.evaluations >= _OFTEN,
        SAVE_EVERY.name: shown.saves >= _OFTEN,
    }
    counts = tuple(count for count in found if micro[count.knob.name])
    for count in counts:
        bench.note(f"{count.binding} counts micro-batches, not optimizer steps: it follows the accumulation")
    return counts


def counted_with_them(change: Change, seen: Seen, known: Sequence[Count]) -> tuple[Count, ...]:
    """What the learning rate's schedule is set with: to be brought along where it shows that it must."""
    taken = {count.binding for count in known}
    return tuple(c for knob in SCHEDULE for c in _all(knob, change, seen) if c.binding not in taken)


def length(bench: Bench, baseline: Trial, best: Standing, seen: Seen) -> Length | None:
    """How many steps it is about: as the user says, else the training's own limit, where its unit is known."""
    if bench.request.steps_remaining is not None:
        return Length(steps=bench.request.steps_remaining, told_by=None)
    accum = baseline.grad_accum or 1
    for count in first_count(LIMIT, bench.request.now, seen):
        if LIMIT.name in best.values:  # found to count micro-batches
            return Length(steps=count.value // accum, told_by=count.binding)
        if _counts_steps(bench, count):
            return Length(steps=count.value, told_by=count.binding)
    return None


def _counts_steps(bench: Bench, count: Count) -> bool:
    """Does the run end after as many optimizer steps as this limit says? `niter` may be epochs, or overruled."""
    if not bench.time_for():
        return False
    try:
        probe = count.binding.apply(bench.request.now, _STEPS)
    except UpshiftError:
        return False
    bench.tell(f"is {count.binding} counted in optimizer steps?")
    shown = bench.ways.count(probe, _LONGEST)
    return shown.ended and abs(shown.steps - _STEPS) <= 1


def first_count(knob: Knob, change: Change, seen: Seen, least: int = 2) -> list[Count]:
    """The likeliest place of a number of steps, if there is one."""
    return list(_all(knob, change, seen, least))[:1]


def _all(knob: Knob, change: Change, seen: Seen, least: int = 2) -> Iterator[Count]:
    for candidate in candidates(knob, None, change, seen):
        value = candidate.value
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            yield Count(knob=knob, binding=candidate.binding, value=value)
