"""A run that waits for its data: what feeds it comes first, then the batch, then both together."""

from __future__ import annotations

from dataclasses import replace

from upshift.knobs.catalogue import FEEDING, MICRO_BATCH, THREADS, WORKERS
from upshift.knobs.discover import Seen
from upshift.search import micro_batch, others
from upshift.search.bench import WORTH, Bench, Standing


def turn(bench: Bench, best: Standing, seen: Seen) -> Standing:
    """The best way to feed it."""
    fed = others.turn(bench, best, seen, FEEDING)
    apart = (best.trial.grad_accum or 1) > 1
    if apart and fed.settings == best.settings and bench.request.wants(MICRO_BATCH.name):
        slower = others.regardless(bench, best, seen, WORKERS)
        if slower is not None:
            return _together(bench, best, slower, seen)
    return micro_batch.turn(bench, fed, seen)


def _together(bench: Bench, best: Standing, slower: Standing, seen: Seen) -> Standing:
    """Workers with larger batches: handing one over has a price, whatever its size, and neither may pay alone."""
    larger = micro_batch.turn(bench, slower, seen, waiting=True)
    if larger is slower:
        return best
    # Workers that share the cores with as many threads as there are cores have none to work on; and what is tried
    # after them would be held against the luck of who got one.
    larger = others.turn(bench, larger, seen, (THREADS,))
    gain = _gain(best, larger)
    if gain < WORTH:
        bench.reject("workers with a larger micro_batch", f"{gain:.2f}×")
        return best
    bench.forgive(WORKERS.name)
    settings = tuple(replace(s, gain=gain) if s.knob == MICRO_BATCH.name else s for s in larger.settings)
    return replace(larger, settings=settings)


def _gain(before: Standing, after: Standing) -> float:
    return after.rate(after.values) / (before.rate(after.values) or 1.0)
