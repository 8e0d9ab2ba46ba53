"""Models run under bfloat16 autocast, their outputs are float32 again: losses, gradients and updates stay in float32.

As accelerate does it, whatever the script: each module with float32 parameters that the program calls itself. Told by
hooks that hold for all modules, so that none carries anything of ours into a copy or a checkpoint.
"""

from __future__ import annotations

import threading

from ..probes.wrap import compiling_check


def install(torch, recorder, _) -> None:
    """What calls from inside do not see: a module that runs again in a backward has the context of its first run."""
    inside = _Inside()
    is_compiling = compiling_check(torch)

    def before(module, args) -> None:
        if is_compiling():
            return
        inside.depth += 1
        if inside.depth > 1 or torch._C._current_graph_task_id() != -1:
            return
        first = next(module.parameters(), None)
        if first is None or first.dtype != torch.float32 or torch.is_autocast_enabled(first.device.type):
            return
        inside.context = torch.autocast(first.device.type, dtype=torch.bfloat16)
        inside.context.__enter__()

    def after(module, args, result):
        if is_compiling():
            return None
        inside.depth -= 1
        if inside.depth or inside.context is None:
            return None
        context, inside.context = inside.context, None
        context.__exit__(None, None, None)
        return _in_float32(torch, result)

    modules = torch.nn.modules.module
    modules.register_module_forward_pre_hook(before)
    modules.register_module_forward_hook(after, always_call=True)


class _Inside(threading.local):
    depth = 0
    context = None


def _in_float32(torch, value):
    """What a model returns, in the containers it came in; anything else as it is."""
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype == torch.bfloat16 else value
    if type(value) is dict:
        return {key: _in_float32(torch, item) for key, item in value.items()}
    if isinstance(value, dict):  # such as a ModelOutput, which is not made from its items
        for key, item in list(value.items()):
            value[key] = _in_float32(torch, item)
        return value
    if isinstance(value, (list, tuple)):
        items = [_in_float32(torch, item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
