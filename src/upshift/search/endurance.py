"""Before a larger micro-batch wins: the longest batch, one evaluation and one save must fit in the same memory.

A short trial sees ordinary batches. The one that breaks a run comes hours later.
"""

from __future__ import annotations

from upshift.errors import UpshiftError
from upshift.knobs.change import Change
from upshift.knobs.counted import EVAL_EVERY, SAVE_EVERY
from upshift.knobs.discover import Seen
from upshift.search.bench import Bench
from upshift.search.counting import first_count
from upshift.search.trial import CRASH, OK, OOM

_SOON = 2
"""Evaluate and save every so many steps, whatever they are counted in."""


def endures(bench: Bench, change: Change, seen: Seen, what: str) -> bool:
    """Does it? True where memory has no limit but the machine's own, or where it could not be found out."""
    if not bench.limited or not bench.time_for():
        return True
    bench.tell(f"{what}: the longest batch, an evaluation and a save")
    shown = bench.ways.endure(_soon(change, seen))
    if shown.outcome == CRASH:  # it may not like to evaluate and save that often
        shown = bench.ways.endure(change)
    if shown.outcome == OOM:
        bench.reject(what, "runs out of memory on the longest batch, in an evaluation or in a save")
        return False
    missing = [
        name
        for name, was in (
            ("the longest batch", shown.longest),
            ("an evaluation", shown.evaluations),
            ("a save", shown.saves),
        )
        if not was
    ]
    if missing or shown.outcome != OK:
        bench.note(f"memory was not tried with {' or '.join(missing) or what}: leave some room")
    return True


def _soon(change: Change, seen: Seen) -> Change:
    """Evaluations and saves at once, where it is known how often they come."""
    for knob in (EVAL_EVERY, SAVE_EVERY):
        for count in first_count(knob, change, seen):
            if count.value > _SOON:
                try:
                    change = count.binding.apply(change, _SOON)
                except UpshiftError:
                    continue
    return change
