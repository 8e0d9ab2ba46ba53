"""The data stall: some steps on batches that are already in memory."""

from __future__ import annotations

import time

from ..events import DATA

_KEPT = 4
_MOST_STEPS = 40
_SECONDS = 3.0


def run(experiments):
    """Keep the next few batches, then feed them again and time the steps."""
    recorder = experiments.recorder
    kept: list = []
    source = None
    feeding = False
    turn = 0

    def feed(iterator, original_next):
        nonlocal turn, source
        if feeding and iterator is source:  # an evaluation's loader has to come to its end
            turn += 1
            return kept[turn % len(kept)]
        recorder.enter(DATA)
        try:
            batch = original_next(iterator)
        finally:
            recorder.leave()
        if not recorder.window and not feeding:
            if iterator is not source:
                kept.clear()
            source = iterator
            kept.append(batch)
            del kept[:-_KEPT]
        return batch

    recorder.feed = feed
    begun = time.perf_counter()
    while len(kept) < 2:
        if time.perf_counter() - begun > _SECONDS:
            raise TimeoutError("the loop takes no batches from a DataLoader")
        yield
    feeding = True
    times = []
    started = last = time.perf_counter()
    while len(times) < 5 or (len(times) < _MOST_STEPS and last - started < _SECONDS):
        yield
        now = time.perf_counter()
        times.append(now - last)
        last = now
    return {"step_seconds": times[1:]}
