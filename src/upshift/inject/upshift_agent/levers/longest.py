"""Batches of the longest samples a DataLoader has: the ones that run out of memory, hours into a training.

Only for datasets that are asked by index. As many samples as a few seconds allow are looked at, spread evenly.
"""

from __future__ import annotations

import functools
from time import perf_counter

from ..arrival import when_imported

_SECONDS = 4.0
_MOST_SAMPLES = 20000
_DEPTH = 4


def install(torch, recorder, wanted) -> None:
    """Wherever batches are made: in the training process or in a worker."""
    when_imported("torch.utils.data._utils.fetch", lambda module: _wrap(module._MapDatasetFetcher, recorder))


def _wrap(fetcher, recorder) -> None:
    original = fetcher.fetch
    orders: dict = {}

    @functools.wraps(original)
    def fetch(self, index):
        if not isinstance(index, (list, tuple)):
            return original(self, index)
        order = orders.get(id(self.dataset))
        if order is None:
            order = orders[id(self.dataset)] = _by_size(self.dataset)
            recorder.emitter.emit("longest", samples=len(order), of=len(self.dataset))
            recorder.emitter.flush()
        return original(self, [order[n % len(order)] for n in range(len(index))])

    fetcher.fetch = fetch


def _by_size(dataset) -> list:
    """Indices of samples, the largest first."""
    count = len(dataset)
    stride = max(1, count // _MOST_SAMPLES)
    looked = []
    begun = perf_counter()
    # In coarse strides first: whenever time runs out, what was seen is spread over the whole.
    for start in range(16):
        for index in range(start * stride, count, 16 * stride):
            looked.append((size_of(dataset[index]), index))
            if perf_counter() - begun > _SECONDS and len(looked) > 1:
                return [index for _, index in sorted(looked, reverse=True)]
    return [index for _, index in sorted(looked, reverse=True)]


def size_of(thing, depth: int = _DEPTH) -> int:
    """Numbers or characters in a sample."""
    if hasattr(thing, "numel"):
        return thing.numel()
    if isinstance(thing, (str, bytes)):
        return len(thing)
    if depth and isinstance(thing, dict):
        return sum(size_of(value, depth - 1) for value in thing.values())
    if isinstance(thing, (list, tuple)):
        if depth and thing and not isinstance(thing[0], (int, float)):
            return sum(size_of(value, depth - 1) for value in thing)
        return len(thing)
    size = getattr(thing, "size", 1)
    return size if isinstance(size, int) else 1
