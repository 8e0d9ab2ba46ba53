"""The data stall: steps on batches that are already in memory, in turn with steps that wait for theirs.

In turn, because a machine's speed drifts from one second to the next by more than what is asked about.
"""

from __future__ import annotations

import time

from ..events import DATA

_KEPT = 4
_BLOCKS = 6
_BLOCK_SECONDS = 0.8
_FEWEST, _MOST = 3, 15
"""Steps of a block, the first of them not counted."""
_PATIENCE = 3.0


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
        if time.perf_counter() - begun > _PATIENCE:
            raise TimeoutError("the loop takes no batches from a DataLoader")
        yield
    times: dict = {True: [], False: []}
    for block in range(_BLOCKS):
        feeding = block % 2 == 0
        taken = 0
        started = last = time.perf_counter()
        while taken < _FEWEST or (taken < _MOST and last - started < _BLOCK_SECONDS):
            yield
            now = time.perf_counter()
            if taken:
                times[feeding].append(now - last)
            last = now
            taken += 1
    return {"step_seconds": times[True], "waiting_seconds": times[False]}
