"""Data-parallel gradients are exchanged once a step, with its last micro-batch, instead of with every one.

Which micro-batch is the last is told from the steps before. Where a step comes earlier than that (the end of an
epoch), what is still apart is exchanged as soon as gradients are used: by clipping, by a scaler or by the step.
"""

from __future__ import annotations

import functools
from weakref import WeakKeyDictionary


def install(torch, recorder, _) -> None:
    """Of DistributedDataParallel; frameworks that accumulate by themselves do this already."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    books: WeakKeyDictionary = WeakKeyDictionary()
    parallel = torch.nn.parallel.DistributedDataParallel
    original = parallel.forward

    @functools.wraps(original)
    def forward(self, *args, **kwargs):
        # Parameters that only some ranks use could not be exchanged later: not all ranks would come.
        if not (torch.is_grad_enabled() and self.require_backward_grad_sync) or self.find_unused_parameters:
            return original(self, *args, **kwargs)
        book = books.get(self)
        if book is None:
            book = books[self] = _Book(self)
        if book.next_is_last():
            return original(self, *args, **kwargs)
        with self.no_sync():  # decided in the forward; its backward may come later
            return original(self, *args, **kwargs)

    parallel.forward = forward

    def together() -> None:
        for book in list(books.values()):
            book.exchange(torch)

    def step(optimizer, args, kwargs) -> None:
        held = {id(p) for group in optimizer.param_groups for p in group["params"]}
        for book in list(books.values()):
            if book.parameters & held:
                book.exchange(torch)
                book.turn_page()

    register_optimizer_step_pre_hook(step)
    if recorder is not None:  # whose witness looks at gradients before they are clipped
        recorder.on_gradients.append(together)
    for owner, name in (
        (torch.nn.utils, "clip_grad_norm_"),
        (torch.nn.utils, "clip_grad_value_"),
        (torch.nn.utils.clip_grad, "clip_grad_norm_"),
        (torch.nn.utils.clip_grad, "clip_grad_value_"),
        (torch.amp.GradScaler, "unscale_"),
    ):
        _first(owner, name, together)


def _first(owner, name: str, act) -> None:
    """`act` before what is already there."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def function(*args, **kwargs):
        act()
        return original(*args, **kwargs)

    setattr(owner, name, function)


class _Book:
    """Micro-batches of one model."""

    def __init__(self, model) -> None:
        self._trained = [p for p in model.parameters() if p.requires_grad]
        self.parameters = {id(p) for p in self._trained}
        self._group = model.process_group
        self._made, self._most = 0, 1
        self._apart = False

    def next_is_last(self) -> bool:
        """Of this step, if it has as many as the longest one so far."""
        self._made += 1
        self._apart = self._made < self._most
        return not self._apart

    def turn_page(self) -> None:
        """The step is made."""
        self._most = max(self._most, self._made)
        self._made = 0

    def exchange(self, torch) -> None:
        """The mean over all ranks, if they still differ."""
        if not self._apart:
            return
        self._apart = False
        ranks = torch.distributed.get_world_size(self._group)
        for parameter in self._trained:
            if parameter.grad is not None:
                torch.distributed.all_reduce(parameter.grad, group=self._group)
                parameter.grad.div_(ranks)
