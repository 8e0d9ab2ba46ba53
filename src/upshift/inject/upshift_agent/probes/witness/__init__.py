"""The witness: what each optimizer step was made of, so that two runs can be compared step by step.

Per step: the samples (content hashes), labels and losses of every micro-batch, the gradient before clipping (norm and
sketch), the update (sketch), clipping, learning rates, scheduler steps, BatchNorm statistics, random numbers drawn by
the model. One event a step, some kilobytes. Here is what is watched; ledger.py keeps the book.
"""

from __future__ import annotations

import functools
import sys
from collections import deque
from threading import get_ident

from ...arrival import when_imported
from ..wrap import compiling_check
from . import losses
from .ledger import Witness


def install(torch, recorder, settings: dict) -> None:
    """`settings`: {"hold": put the parameters on a walk}."""
    witness = Witness(torch, recorder, hold=settings.get("hold", True))
    recorder.eager = True
    recorder.closed = False
    recorder.at_step = recorder.fail_open("witness", witness.manual_step)
    recorder.capture = recorder.fail_open("witness", witness.model_called)
    losses.install(torch, recorder, witness.loss_taken)
    _watch_backward(torch, recorder, witness)
    _watch_optimizers(torch, recorder, witness)
    _watch_clipping(torch, recorder, witness)
    _watch_schedulers(torch, recorder, witness)
    when_imported(
        "torch.utils.data.dataloader",
        lambda module: _watch_indices(module._BaseDataLoaderIter, recorder, witness),
    )
    when_imported("transformers.trainer", lambda module: _watch_trainer(module, recorder))


def _watch_backward(torch, recorder, witness) -> None:
    original = torch.autograd.backward
    is_compiling = compiling_check(torch)
    said: list = []
    begins = recorder.fail_open("witness", witness.backward_begins)
    ended = recorder.fail_open("witness", witness.backward_ended)

    @functools.wraps(original)
    def backward(*args, **kwargs):
        if is_compiling() or recorder.backward_depth or (recorder.thread and get_ident() != recorder.thread):
            return original(*args, **kwargs)
        if not recorder.thread:
            recorder.activate()
        begins(args[0] if args else kwargs.get("tensors"))
        if not said:
            said.append(True)
            losses.site(recorder, "backward", sys._getframe(1))
        result = original(*args, **kwargs)
        ended()
        return result

    torch.autograd.backward = backward


def _watch_optimizers(torch, recorder, witness) -> None:
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    optimizer_class = torch.optim.Optimizer
    add = optimizer_class.add_param_group
    is_compiling = compiling_check(torch)
    follow = recorder.fail_open("witness", witness.follow)
    begins = recorder.fail_open("witness", witness.step_begins)
    ended = recorder.fail_open("witness", witness.step_ended)
    depth = [0]

    @functools.wraps(add)
    def add_param_group(self, group):
        add(self, group)
        follow(self)

    def before(optimizer, args, kwargs) -> None:
        if is_compiling() or get_ident() != recorder.thread:
            return
        depth[0] += 1
        if depth[0] == 1:
            begins(optimizer)

    def after(optimizer, args, kwargs) -> None:
        if is_compiling() or get_ident() != recorder.thread or not depth[0]:
            return
        depth[0] -= 1
        if depth[0] == 0:
            ended(optimizer)

    optimizer_class.add_param_group = add_param_group
    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)


def _watch_clipping(torch, recorder, witness) -> None:
    clipping = recorder.fail_open("witness", witness.clipping)
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        original = getattr(torch.nn.utils.clip_grad, name)

        def clip(*args, _original=original, **kwargs):
            if get_ident() == recorder.thread:
                for callback in recorder.on_gradients:
                    callback()
                clipping()
            return _original(*args, **kwargs)

        functools.update_wrapper(clip, original)
        setattr(torch.nn.utils.clip_grad, name, clip)
        setattr(torch.nn.utils, name, clip)


def _watch_schedulers(torch, recorder, witness) -> None:
    def count(original):
        @functools.wraps(original)
        def step(self, *args, **kwargs):
            if recorder.thread:
                witness.scheduler_steps += 1
            return original(self, *args, **kwargs)

        return step

    module = torch.optim.lr_scheduler
    module.LRScheduler.step = count(module.LRScheduler.step)


def _watch_indices(iterator_class, recorder, witness) -> None:
    """Pair every batch with the samples it was asked for, workers or not."""
    original_next, original_index = iterator_class.__next__, iterator_class._next_index

    @functools.wraps(original_index)
    def _next_index(self):
        index = original_index(self)
        if self._upshift_asked is None:
            self._upshift_asked = deque()
        self._upshift_asked.append(index)
        return index

    @functools.wraps(original_next)
    def __next__(self):
        batch = original_next(self)
        index = self._upshift_asked.popleft() if self._upshift_asked else None
        if isinstance(index, (list, tuple)) and all(isinstance(i, int) for i in index):
            witness.batch_indices(list(index))
        return batch

    iterator_class._upshift_asked = None
    iterator_class._next_index = _next_index
    iterator_class.__next__ = __next__


def _watch_trainer(module, recorder) -> None:
    """HF Trainer: does the model's loss get the number of items in the whole batch?"""
    original = module.Trainer.training_step
    said: list = []

    @functools.wraps(original)
    def training_step(self, *args, **kwargs):
        if not said:
            said.append(True)
            recorder.emitter.emit(
                "trainer",
                model=type(self.model).__name__,
                accepts_loss_kwargs=bool(getattr(self, "model_accepts_loss_kwargs", False)),
            )
        return original(self, *args, **kwargs)

    module.Trainer.training_step = training_step
