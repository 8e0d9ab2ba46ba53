"""The run in float64: rounding shrinks a hundred million times, a real difference stays what it is.

Modules are converted at their first call, in place, so that optimizers keep their parameters; floating inputs follow.
Autocast is off. A program that insists on another dtype in the middle fails, and the trial is void.
"""

from __future__ import annotations

import functools


def install(torch, recorder, _) -> None:
    """Convert what is called; keep casts from undoing it."""
    converted: set = set()

    def convert(module) -> None:
        if id(module) in converted:
            return
        converted.add(id(module))
        if not converted - {id(module)}:
            torch.set_default_dtype(torch.float64)
        module.double()
        forward = module.forward

        @functools.wraps(forward)
        def in_double(*args, **kwargs):
            return forward(*_doubled(torch, args), **_doubled(torch, kwargs))

        module.forward = in_double

    recorder.on_model.append(convert)
    _no_way_back(torch)
    _no_autocast(torch)
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits"):
        _double_arguments(torch, name)


def _doubled(torch, value):
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() and value.dtype != torch.float64 else value
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(_doubled(torch, v) for v in value)
    if type(value) is list:
        return [_doubled(torch, v) for v in value]
    if type(value) is dict:
        return {k: _doubled(torch, v) for k, v in value.items()}
    return value


def _no_way_back(torch) -> None:
    """`.float()` and `.to(torch.float32)` of a double stay double."""
    tensor_class = torch.Tensor
    to, as_float = tensor_class.to, tensor_class.float
    lower = (torch.float32, torch.bfloat16, torch.float16)

    @functools.wraps(to)
    def to_(self, *args, **kwargs):
        if self.dtype == torch.float64:
            args = (
                tuple(torch.float64 if a in lower else a for a in args if not isinstance(a, tensor_class))
                or args
            )
            if kwargs.get("dtype") in lower:
                kwargs["dtype"] = torch.float64
        return to(self, *args, **kwargs)

    tensor_class.to = to_
    tensor_class.float = lambda self, *args, **kwargs: (
        self if self.dtype == torch.float64 else as_float(self, *args, **kwargs)
    )
    for name in ("half", "bfloat16"):
        setattr(tensor_class, name, lambda self, *args, **kwargs: self)


def _no_autocast(torch) -> None:
    autocast = torch.amp.autocast_mode.autocast
    original = autocast.__init__

    @functools.wraps(original)
    def __init__(self, *args, **kwargs):
        original(self, *args, **kwargs)
        self._enabled = False

    autocast.__init__ = __init__


def _double_arguments(torch, name: str) -> None:
    original = getattr(torch.nn.functional, name)

    @functools.wraps(original)
    def function(*args, **kwargs):
        return original(*_doubled(torch, args), **_doubled(torch, kwargs))

    setattr(torch.nn.functional, name, function)
