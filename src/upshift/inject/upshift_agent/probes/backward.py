"""Backwards: the outermost call only, for reentrant checkpointing calls backward inside backward."""

from __future__ import annotations

import functools

from ..events import BACKWARD
from .wrap import compiling_check, wrap_method


def install(torch, recorder) -> None:
    """Wrap torch.autograd.backward, which Tensor.backward looks up at each call."""
    original = torch.autograd.backward
    is_compiling = compiling_check(torch)

    @functools.wraps(original)
    def backward(*args, **kwargs):
        if is_compiling():
            return original(*args, **kwargs)
        if not recorder.active:
            recorder.activate()
        if recorder.backward_depth or not recorder.mine():
            return original(*args, **kwargs)
        # (tensors, grad_tensors, retain_graph, create_graph, ...): Tensor.backward passes by position
        retain = kwargs.get("retain_graph", args[2] if len(args) > 2 else None)
        for callback in recorder.on_backward:
            callback(args[0] if args else kwargs.get("tensors"))
        recorder.enter(BACKWARD)
        recorder.backward_begins(bool(retain))
        recorder.backward_depth = 1
        recorder.closed = True  # modules called in here are recomputation
        try:
            return original(*args, **kwargs)
        finally:
            recorder.backward_depth = 0
            recorder.closed = False
            recorder.leave()
            recorder.backward_ended()

    torch.autograd.backward = backward
    # Gradient penalties and functional loops: backward time, but no micro-step of its own.
    wrap_method(torch, recorder, torch.autograd, "grad", BACKWARD)
