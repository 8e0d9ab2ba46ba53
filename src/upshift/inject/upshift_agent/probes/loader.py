"""DataLoaders: who made them and how, the batches they hand over, how long their workers take to start.

StatefulDataLoader inherits the same iterator.
"""

from __future__ import annotations

import functools
import sys
from collections import deque
from threading import get_ident
from time import perf_counter

from ..arrival import when_imported
from ..events import DATA
from ..sampler import installed

_MOST_NOTES = 500
"""Some loops make an iterator for every step."""


def install(torch, recorder) -> None:
    """Wrap the loader and its iterator as soon as their module is there."""
    when_imported("torch.utils.data.dataloader", lambda module: _wrap(module, recorder))


def _wrap(module, recorder) -> None:
    _wrap_loader(module.DataLoader, recorder)
    _wrap_iterator(module._BaseDataLoaderIter, recorder)


def _wrap_iterator(iterator_class, recorder) -> None:
    """Time `__next__` in the training thread and remember how many samples each batch was asked for."""
    original_next = iterator_class.__next__
    original_index = iterator_class._next_index

    @functools.wraps(original_index)
    def _next_index(self):
        index = original_index(self)
        # Batches come back in the order asked for, so a queue pairs them, with workers too.
        sizes = self._upshift_sizes
        if sizes is None:
            sizes = self._upshift_sizes = deque()
        sizes.append(len(index) if isinstance(index, (list, tuple)) else None)
        return index

    @functools.wraps(original_next)
    def __next__(self):
        if get_ident() != recorder.thread:
            batch = original_next(self)
            if self._upshift_sizes:
                self._upshift_sizes.popleft()
            return batch
        if recorder.feed is not None:  # an experiment: batches kept from before, or this one kept for later
            return recorder.feed(self, original_next)
        recorder.enter(DATA)
        try:
            batch = original_next(self)
        finally:
            recorder.leave()
        sizes = self._upshift_sizes
        recorder.batch_loaded(sizes.popleft() if sizes else None)
        return batch

    iterator_class._upshift_sizes = None
    iterator_class._next_index = _next_index
    iterator_class.__next__ = __next__


def _wrap_loader(loader_class, recorder) -> None:
    """Note where a loader was made; time the making of its iterators, which starts the workers."""
    original_init = loader_class.__init__
    original_iterator = loader_class._get_iterator

    @functools.wraps(original_init)
    def __init__(self, *args, **kwargs):
        original_init(self, *args, **kwargs)
        self.__dict__["_upshift_where"] = users_line(sys._getframe(1))

    @functools.wraps(original_iterator)
    def _get_iterator(self):
        if get_ident() != recorder.thread:
            iterator = original_iterator(self)
            _note(recorder, self, None)
            return iterator
        recorder.enter(DATA)
        begun = perf_counter()
        try:
            iterator = original_iterator(self)
        finally:
            recorder.leave()
        _note(recorder, self, perf_counter() - begun)
        return iterator

    loader_class.__init__ = __init__
    loader_class._get_iterator = _get_iterator


def _note(recorder, loader, seconds) -> None:
    """An iterator was made: an epoch, an evaluation, or the start."""
    made = loader.__dict__["_upshift_made"] = loader.__dict__.get("_upshift_made", 0) + 1
    if made > _MOST_NOTES:
        return
    dataset, collate = loader.dataset, loader.collate_fn
    recorder.emitter.emit(
        "loader",
        id=id(loader),
        where=loader.__dict__.get("_upshift_where"),
        workers=loader.num_workers,
        pinned=bool(loader.pin_memory),
        persistent=bool(loader.persistent_workers),
        prefetch=loader.prefetch_factor,
        batch_size=loader.batch_size,
        batches=_length(loader),
        samples=_length(dataset),
        dataset=type(dataset).__name__,
        dataset_where=function_line(getattr(type(dataset), "__getitem__", None))
        or function_line(getattr(type(dataset), "__iter__", None)),
        collate=getattr(collate, "__name__", type(collate).__name__),
        collate_where=function_line(collate) or function_line(vars(type(collate)).get("__call__")),
        seconds=seconds,
        evaluation=bool(recorder.window),
        steps=recorder.optimizer_steps,
    )


def _length(thing):
    try:
        return len(thing)
    except (TypeError, NotImplementedError, AttributeError):
        return None


def users_line(frame) -> str | None:
    """file:line of the nearest caller that is the user's own."""
    for _ in range(40):
        if frame is None:
            return None
        if not installed(frame.f_code.co_filename):
            return "%s:%d" % (frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


def function_line(function) -> str | None:
    """file:line of a function that the user wrote."""
    code = getattr(function, "__code__", None)
    if code is None or installed(code.co_filename):
        return None
    return "%s:%d" % (code.co_filename, code.co_firstlineno)
