"""One way to time a function of somebody else's without changing how it looks or fails."""

from __future__ import annotations

import functools
from threading import get_ident
from time import perf_counter

from ..books import LEAVE


def compiling_check(torch):
    """The function that is True while torch.compile traces; its name moved between releases."""
    for owner in (getattr(torch, "compiler", None), getattr(torch, "_dynamo", None)):
        for name in ("is_dynamo_compiling", "is_compiling"):
            if hasattr(owner, name):
                return getattr(owner, name)
    return lambda: False


def timed_function(torch, recorder, original, phase: int):
    """`original`, accounted as `phase` when the training thread calls it."""
    is_compiling = compiling_check(torch)
    mark = recorder.mark

    @functools.wraps(original)
    def wrapper(*args, **kwargs):
        if is_compiling() or get_ident() != recorder.thread:
            return original(*args, **kwargs)
        if phase in recorder.skipped:
            return None
        if recorder.gpu is not None:
            recorder.gpu.enter(phase, perf_counter())
        mark((phase, perf_counter()))
        try:
            return original(*args, **kwargs)
        finally:
            mark((LEAVE, perf_counter()))
            if recorder.gpu is not None:
                recorder.gpu.leave(perf_counter())

    return wrapper


def wrap_method(torch, recorder, owner, name: str, phase: int) -> None:
    """Replace `owner.name` (a class's method or a module's function) by its timed self."""
    original = getattr(owner, name, None)
    if original is not None:
        setattr(owner, name, timed_function(torch, recorder, original, phase))
