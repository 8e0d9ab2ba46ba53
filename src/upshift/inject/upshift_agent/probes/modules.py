"""The model's calls: outermost only, with what they tell about the batch; and eval()/train() switches."""

from __future__ import annotations

import functools
from threading import get_ident

from ..arrival import when_imported
from ..events import EVAL_WINDOW, LOSS
from .batch import BatchReader
from .detail import Detail
from .wrap import compiling_check


def install(torch, recorder) -> None:
    """Patch Module.__call__ and Module.train once, for good.

    torch.compile compares Module.__call__ with the one it saw when it was imported and inlines by file
    name: so the patch must be in place before, stay in place, and look as if it stood in torch's own file.
    Then graphs are what they are without us.
    """
    module_class = torch.nn.Module
    original = module_class.__call__
    traced = _plain_call(torch, recorder, original)
    traced.__code__ = traced.__code__.replace(
        co_filename=original.__code__.co_filename, co_name=original.__code__.co_name
    )
    traced.__name__ = original.__name__
    traced.__qualname__ = original.__qualname__
    traced.__doc__ = original.__doc__
    module_class.__call__ = traced
    when_imported("torch._dynamo.trace_rules", _stay_eager)
    _install_switch(module_class, recorder)


def _stay_eager(trace_rules) -> None:
    """What runs around a compiled model is ours: dynamo is not to look at it."""
    agent = __name__.rpartition(".probes")[0]
    for module in ("probes.modules", "probes.detail", "probes.batch", "recorder"):
        trace_rules.add(agent + "." + module)


def _plain_call(torch, recorder, original):
    """The new Module.__call__. Inner calls take the short way: one flag, no extra frame."""
    is_compiling = compiling_check(torch)
    outermost = _outermost_call(torch, recorder, original)

    def call(self, *args, **kwargs):
        # In this order: a trace that read the flag first would be guarded on it, and compiled again.
        if is_compiling() or recorder.closed:
            if self._compiled_call_impl is not None:
                return self._compiled_call_impl(*args, **kwargs)
            return self._call_impl(*args, **kwargs)
        return outermost(self, args, kwargs)

    if original.__code__.co_names != ("_compiled_call_impl", "_call_impl"):
        # Another torch, another body: keep its own function and pay the extra frame.
        def call(self, *args, **kwargs):
            if is_compiling() or recorder.closed:
                return original(self, *args, **kwargs)
            return outermost(self, args, kwargs)

    return call


def _outermost_call(torch, recorder, original):
    is_grad_enabled = torch.is_grad_enabled
    tensor_class = torch.Tensor
    detail = recorder.detail = Detail(torch, recorder)
    read = recorder.fail_open("batch", BatchReader(torch, recorder).read)

    def outermost(module, args, kwargs):
        if get_ident() != recorder.thread:
            if recorder.thread or not (recorder.eager and is_grad_enabled()):
                return original(module, *args, **kwargs)
            recorder.activate()
        if recorder.on_model:
            for callback in recorder.on_model:
                callback(module)
        if detail.on:
            return detail.call(module, args, kwargs, original)
        grad = is_grad_enabled()
        loss = grad and recorder.calls_since_backward and _may_be_loss(module)
        recorder.model_begins(grad, module.training)
        closely = recorder.detail_due and recorder.window != EVAL_WINDOW
        recorder.closed = not closely
        result = None
        try:
            hook = read(module, args, kwargs) if grad and not loss else None
            if recorder.capture is not None and grad and not loss:
                recorder.capture(module, args, kwargs)
            try:
                if closely:
                    result = detail.outermost(module, args, kwargs, original)
                else:
                    result = original(module, *args, **kwargs)
            finally:
                if hook is not None:
                    hook.remove()
            return result
        finally:
            recorder.closed = False
            if loss and (
                "loss" in type(module).__name__.lower()
                or (isinstance(result, tensor_class) and result.dim() == 0)
            ):
                recorder.leave_as(LOSS)
            else:
                recorder.leave()

    return outermost


def _may_be_loss(module) -> bool:
    """Nothing to learn in it: a criterion, or a bare activation."""
    return not module._modules and not module._parameters


def _install_switch(module_class, recorder) -> None:
    original = module_class.train
    inside = []

    @functools.wraps(original)
    def train(self, mode=True):
        if inside or get_ident() != recorder.thread:
            return original(self, mode)
        if mode:
            recorder.close_window()
        elif self.training:
            recorder.close_window()
            recorder.open_window(EVAL_WINDOW)
        inside.append(True)
        try:
            return original(self, mode)
        finally:
            inside.pop()

    module_class.train = train
