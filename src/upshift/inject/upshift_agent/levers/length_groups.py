"""Within an optimizer step, samples of like length share a micro-batch: the same samples a step, less padding.

Only for datasets that are asked by index. How many micro-batches a step has is told from the steps before; batches
that were drawn until then stay as they are, and so does an evaluation's. Looking up a length asks the dataset once
more for each sample, with the random numbers put back afterwards.
"""

from __future__ import annotations

import functools
import random
import sys
from collections import deque

from ..arrival import when_imported
from .longest import size_of


def install(torch, recorder, _) -> None:
    """Where a DataLoader draws the indices of a batch."""
    micro_batches = _MicroBatches(torch)
    when_imported(
        "torch.utils.data.dataloader", lambda module: _wrap(torch, module._BaseDataLoaderIter, micro_batches)
    )


class _MicroBatches:
    """Backwards of this step, and the most of a step so far."""

    def __init__(self, torch) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self.made, self.most = 0, 1
        original = torch.autograd.backward

        @functools.wraps(original)
        def backward(*args, **kwargs):
            self.made += 1
            return original(*args, **kwargs)

        torch.autograd.backward = backward
        register_optimizer_step_post_hook(self._stepped)

    def _stepped(self, optimizer, args, kwargs) -> None:
        self.most = max(self.most, self.made)
        self.made = 0


def _wrap(torch, iterator_class, micro_batches: _MicroBatches) -> None:
    original = iterator_class._next_index
    lengths: dict = {}

    @functools.wraps(original)
    def _next_index(self):
        drawn = self.__dict__.get("_upshift_drawn")
        if drawn is None or drawn.source is not self._sampler_iter:  # a new epoch
            drawn = self.__dict__["_upshift_drawn"] = _Drawn(self._sampler_iter, micro_batches.made)
        if drawn.regrouped:
            return drawn.regrouped.popleft()
        first = original(self)
        number, drawn.number = drawn.number, drawn.number + 1
        most = micro_batches.most
        if number % most or most < 2 or not torch.is_grad_enabled() or not _asked_by_index(first):
            return first
        batches = [first]
        while len(batches) < most:
            try:
                batches.append(original(self))
            except StopIteration:
                break
        drawn.number += len(batches) - 1
        known = lengths.setdefault(id(self._dataset), (self._dataset, {}))[1]
        _look_up(torch, self._dataset, [i for batch in batches for i in batch if i not in known], known)
        drawn.regrouped.extend(_regrouped(batches, known))
        return drawn.regrouped.popleft()

    iterator_class._next_index = _next_index


class _Drawn:
    """Of one pass over the data."""

    def __init__(self, source, number: int) -> None:
        self.source = source
        self.number = number
        self.regrouped: deque = deque()


def _asked_by_index(batch) -> bool:
    return isinstance(batch, (list, tuple)) and bool(batch) and all(isinstance(i, int) for i in batch)


def _regrouped(batches: list, lengths: dict) -> list:
    """The same indices in batches of the same sizes, the longest first: what does not fit in memory shows at once."""
    order = sorted((i for batch in batches for i in batch), key=lambda i: -lengths[i])
    found = []
    for batch in batches:
        found.append(order[: len(batch)])
        order = order[len(batch) :]
    return found


def _look_up(torch, dataset, indices: list, known: dict) -> None:
    numpy = sys.modules.get("numpy")
    held = (torch.get_rng_state(), random.getstate(), numpy.random.get_state() if numpy else None)
    try:
        for index in indices:
            known[index] = size_of(dataset[index])
    finally:
        torch.set_rng_state(held[0])
        random.setstate(held[1])
        if numpy:
            numpy.random.set_state(held[2])
