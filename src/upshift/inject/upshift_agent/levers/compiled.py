"""Models are compiled in place: each trained module that the program calls itself, when it is first called.

In place, so that names of parameters, checkpoints and copies stay what they are.
"""

from __future__ import annotations

from ..probes.wrap import compiling_check


def install(torch, recorder, _) -> None:
    """Found in the first steps; what the program has compiled itself is left alone."""

    def compile_(module) -> None:
        if module._compiled_call_impl is not None or type(module).__name__ == "OptimizedModule":
            return
        if module._modules and any(parameter.requires_grad for parameter in module.parameters()):
            module.compile()

    if recorder is not None:
        recorder.on_model.append(compile_)
    else:
        _in_the_first_steps(torch, compile_)


_STEPS = 2
"""Optimizer steps, after which every model was called: looking at all calls costs."""


def _in_the_first_steps(torch, act) -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    is_compiling = compiling_check(torch)
    depth, steps = [0], [0]

    def before(module, args) -> None:
        if is_compiling():
            return
        if not depth[0]:
            act(module)
        depth[0] += 1

    def after(module, args, result) -> None:
        if not is_compiling():
            depth[0] -= 1

    def stepped(optimizer, args, kwargs) -> None:
        steps[0] += 1
        if steps[0] == _STEPS:
            for hook in hooks:
                hook.remove()

    modules = torch.nn.modules.module
    hooks = [
        modules.register_module_forward_pre_hook(before),
        modules.register_module_forward_hook(after, always_call=True),
        register_optimizer_step_post_hook(stepped),
    ]
