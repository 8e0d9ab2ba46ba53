"""The optimizer's step in torch's other implementations, on the same parameters and gradients."""

from __future__ import annotations

_VARIANTS = {
    "for-loop": {"foreach": False, "fused": False},
    "foreach": {"foreach": True, "fused": False},
    "fused": {"foreach": False, "fused": True},
}
_SECONDS = 1.0


def run(experiments):
    """Time `step` as it is and with each implementation its parameter groups know of."""
    from . import quickest

    # Begun at the end of a step, before zero_grad: the gradients are still there after one more.
    yield
    optimizer = experiments.optimizer
    if optimizer is None:
        raise ValueError("the loop has no optimizer object")
    with_gradients = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    if not with_gradients:
        raise ValueError("no gradients to step with")
    wait = experiments.torch.cuda.synchronize if with_gradients[0].is_cuda else _nothing
    variants = {"as it is": _with(optimizer, {}, wait)}
    for name, flags in _VARIANTS.items():
        if all(flag in group for group in optimizer.param_groups for flag in flags):
            variants[name] = _with(optimizer, flags, wait)
    result = quickest(variants, _SECONDS)
    result["optimizer"] = type(optimizer).__name__
    result["now"] = {flag: optimizer.param_groups[0].get(flag) for flag in ("foreach", "fused")}
    result["parameters"] = len(with_gradients)
    return result


def _nothing() -> None:
    """On the host a step is done when it returns."""


def _with(optimizer, flags, wait):
    def step():
        before = [{flag: group[flag] for flag in flags} for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group.update(flags)
        try:
            optimizer.step()
            wait()
        finally:
            for group, old in zip(optimizer.param_groups, before):
                group.update(old)

    return step
