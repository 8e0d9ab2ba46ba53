"""Optimizer steps: torch's own global hooks, and GradScaler for the steps it skips."""

from __future__ import annotations

from threading import get_ident
from time import perf_counter

from ..events import OPTIMIZER
from .wrap import compiling_check, wrap_method


def install(torch, recorder) -> None:
    """Hook every optimizer's step, zero_grad and the scaler around it."""
    is_compiling = compiling_check(torch)
    mark = recorder.mark
    names: dict = {}

    def name_of(optimizer) -> str:
        """Class name plus a number, stable for the life of the object."""
        known = names.get(id(optimizer))
        if known is None:
            known = names[id(optimizer)] = "%s#%d" % (type(optimizer).__name__, len(names))
        return known

    def before(optimizer, args, kwargs) -> None:
        # A compiled step traces this hook: it must leave no clock and no counter in the graph.
        if is_compiling():
            return
        if get_ident() != recorder.thread:
            if recorder.thread:
                return
            recorder.activate()
        recorder.step_depth += 1
        if recorder.step_depth == 1:
            mark((OPTIMIZER, perf_counter()))
            if recorder.gpu is not None:
                recorder.gpu.enter(OPTIMIZER, perf_counter())

    def after(optimizer, args, kwargs) -> None:
        if is_compiling() or get_ident() != recorder.thread or not recorder.step_depth:
            return
        recorder.step_depth -= 1
        if recorder.step_depth == 0:  # subclasses call super().step(): the outermost counts
            recorder.step_ended(names.get(id(optimizer)) or name_of(optimizer), False, True)
            if recorder.at_step is not None:
                recorder.at_step(optimizer)

    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)
    wrap_method(torch, recorder, torch.optim.Optimizer, "zero_grad", OPTIMIZER)
    _install_scaler(torch, recorder, name_of)


def _install_scaler(torch, recorder, name_of) -> None:
    """A scaler that finds infs calls no optimizer, yet the iteration is over: count it as a skipped step."""
    scaler_class = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
    original = scaler_class.step

    def step(self, optimizer, *args, **kwargs):
        if get_ident() != recorder.thread:
            return original(self, optimizer, *args, **kwargs)
        before = recorder.optimizer_steps
        recorder.enter(OPTIMIZER)
        try:
            return original(self, optimizer, *args, **kwargs)
        finally:
            recorder.leave()
            if recorder.optimizer_steps == before:
                recorder.step_ended(name_of(optimizer), skipped=True)

    step.__wrapped__ = original
    step.__doc__ = original.__doc__
    scaler_class.step = step
    for method in ("unscale_", "update"):
        wrap_method(torch, recorder, scaler_class, method, OPTIMIZER)
