"""The micro-batches of an optimizer step in reverse order: the same mathematics, other rounding.

What comes out differs from the run as it is by rounding alone, which is the floor that differences are held against.
"""

from __future__ import annotations

import functools

from ..arrival import when_imported


def install(torch, recorder, window: int) -> None:
    """`window`: batches a step takes from its loader; for 1, the samples of each batch are reversed."""
    when_imported(
        "torch.utils.data.dataloader", lambda module: _wrap(module._BaseDataLoaderIter, recorder, window)
    )


def _wrap(iterator_class, recorder, window: int) -> None:
    original = iterator_class._next_index

    @functools.wraps(original)
    def _next_index(self):
        if recorder.window:  # an evaluation
            return original(self)
        waiting = self._upshift_waiting
        if not waiting:
            waiting = self._upshift_waiting = []
            try:
                while len(waiting) < window:
                    waiting.append(original(self))
            except StopIteration:
                if not waiting:
                    raise
            # Reversed when taken from the end.
        index = waiting.pop()
        return index[::-1] if window == 1 and isinstance(index, (list, tuple)) else index

    iterator_class._upshift_waiting = None
    iterator_class._next_index = _next_index
