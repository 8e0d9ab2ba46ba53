"""Backwards: the outermost call only, for reentrant checkpointing calls backward inside backward."""

from __future__ import annotations

import functools
from threading import get_ident

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
        if recorder.backward_depth or get_ident() != recorder.thread:
            if recorder.thread:
                return original(*args, **kwargs)
            recorder.activate()
        # (tensors, grad_tensors, retain_graph, create_graph, ...): Tensor.backward passes by position
        retain = kwargs.get("retain_graph", args[2] if len(args) > 2 else None)
        if recorder.on_backward:
            for callback in recorder.on_backward:
                callback(args[0] if args else kwargs.get("tensors"))
        recorder.backward_begins(bool(retain))
        recorder.backward_depth = 1
        if recorder.detail_due:
            recorder.detail.backward_begins()
        else:
            recorder.closed = True  # modules called in here are recomputation
        try:
            return original(*args, **kwargs)
        finally:
            recorder.backward_depth = 0
            recorder.closed = False
            recorder.backward_ended()

    torch.autograd.backward = backward
    # Gradient penalties and functional loops: backward time, but no micro-step of its own.
    wrap_method(torch, recorder, torch.autograd, "grad", BACKWARD)
