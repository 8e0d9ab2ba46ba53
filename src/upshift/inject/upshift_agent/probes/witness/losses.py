"""What the loss functions were given: how many labels count, how many classes, which reduction, what came out."""

from __future__ import annotations

import functools
import sys
from threading import get_ident

from ..loader import users_line
from ..wrap import compiling_check

_WITH_LABELS = ("cross_entropy", "nll_loss")
_ELEMENTWISE = (
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "kl_div",
)
_MOST = 8


def install(torch, recorder, note) -> None:
    """Call `note(row)` for every loss taken with gradients in the training thread."""
    for name in _WITH_LABELS + _ELEMENTWISE:
        original = getattr(torch.nn.functional, name, None)
        if original is not None:
            setattr(torch.nn.functional, name, _watched(torch, recorder, name, original, note))


def _watched(torch, recorder, name, original, note):
    is_compiling = compiling_check(torch)
    said: list = []
    describe = recorder.fail_open("losses", functools.partial(_describe, torch, name))

    @functools.wraps(original)
    def loss(*args, **kwargs):
        result = original(*args, **kwargs)
        if is_compiling() or get_ident() != recorder.thread or not torch.is_grad_enabled():
            return result
        if type(result) is not torch.Tensor:  # a graph of this call is being made: there are no values
            return result
        row = describe(args, kwargs, result)
        if row is not None:
            note(row)
            if not said:
                said.append(True)
                site(recorder, name, sys._getframe(1))
        return result

    return loss


def site(recorder, function: str, frame) -> None:
    """Say once where the user calls this."""
    where = users_line(frame)
    if where is not None:
        recorder.emitter.emit("loss_site", function=function, where=where)


def _describe(torch, name: str, args, kwargs, result):
    """[function, reduction, labels that count, classes, value]."""
    given = args[0] if args else kwargs["input"]
    target = args[1] if len(args) > 1 else kwargs["target"]
    reduction = kwargs.get("reduction", "mean")
    count, classes = target.numel(), None
    if name in _WITH_LABELS:
        classes = int(given.shape[1 if given.dim() > 1 else 0])
        if target.is_floating_point():
            count = target.numel() // max(1, classes)
        else:
            ignored = kwargs.get("ignore_index", args[4] if len(args) > 4 else -100)
            count = int((target != ignored).sum())
    value = float(result.detach()) if result.dim() == 0 else None
    return [name, reduction, count, classes, value]
