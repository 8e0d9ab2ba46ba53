"""How fast the input could be: take batches from the loader without training on them."""

from __future__ import annotations

import time

_SECONDS = 2.0
_MOST = 100


def run(experiments):
    """Drain the iterator the loop uses; an epoch that ends meanwhile is what can be had."""
    recorder = experiments.recorder
    found = []

    def feed(iterator, original_next):
        batch = original_next(iterator)
        if not recorder.window:
            found.append((iterator, original_next))
        return batch

    recorder.feed = feed
    begun = time.perf_counter()
    while not found:
        if time.perf_counter() - begun > _SECONDS:
            raise TimeoutError("the loop takes no batches from a DataLoader")
        yield
    recorder.feed = None
    iterator, original_next = found[-1]
    taken = 0
    # What the workers have ready already says nothing about how fast they are.
    ready = getattr(iterator, "_tasks_outstanding", 0)
    started = begun = time.perf_counter()
    try:
        while taken < _MOST + ready and time.perf_counter() - started < _SECONDS:
            original_next(iterator)
            taken += 1
            if taken == ready:
                begun = time.perf_counter()
    except StopIteration:
        pass
    if taken - ready < 2:
        raise TimeoutError("the epoch ended too soon to tell")
    return {"batches": taken - ready, "seconds": time.perf_counter() - begun}
