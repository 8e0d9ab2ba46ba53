"""Batches handed over by a DataLoader (StatefulDataLoader inherits the same iterator)."""

from __future__ import annotations

import functools
from collections import deque

from ..arrival import when_imported
from ..events import DATA


def install(torch, recorder) -> None:
    """Wrap the iterator as soon as its module is there."""
    when_imported("torch.utils.data.dataloader", lambda module: _wrap(module, recorder))


def _wrap(module, recorder) -> None:
    """Time `__next__` in the training thread and remember how many samples each batch was asked for."""
    iterator_class = module._BaseDataLoaderIter
    original_next = iterator_class.__next__
    original_index = iterator_class._next_index

    @functools.wraps(original_index)
    def _next_index(self):
        index = original_index(self)
        # Batches come back in the order asked for, so a queue pairs them, with workers too.
        sizes = self.__dict__.setdefault("_upshift_sizes", deque())
        sizes.append(len(index) if isinstance(index, (list, tuple)) else None)
        return index

    @functools.wraps(original_next)
    def __next__(self):
        if not recorder.mine():
            batch = original_next(self)
            _size(self)
            return batch
        recorder.enter(DATA)
        try:
            batch = original_next(self)
        finally:
            recorder.leave()
        recorder.batch_loaded(_size(self))
        return batch

    iterator_class._next_index = _next_index
    iterator_class.__next__ = __next__


def _size(iterator):
    sizes = iterator.__dict__.get("_upshift_sizes")
    return sizes.popleft() if sizes else None
