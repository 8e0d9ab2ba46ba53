"""The model's own calls, made again: many small ones as one, in another precision, with other thread counts.

The inputs of one optimizer step are kept as the loop gave them. They are run forward and backward as they are, and
in variants, in turn. Nothing of the loop is needed for that: the loss is the sum of the outputs.
"""

from __future__ import annotations

import contextlib
import time

_MOST_CALLS = 32
_LONGEST_SECONDS = 0.4
"""Of the calls that are run together as one variant; more than one is kept where there is more than one."""
_SECONDS = 3.0


def run(experiments):
    """Keep the calls of one step, then time them."""
    from . import quickest

    torch, recorder = experiments.torch, experiments.recorder
    kept: list = []

    def capture(module, args, kwargs) -> None:
        if len(kept) < _MOST_CALLS:
            kept.append((module, args, kwargs))
            state.append(_autocast(torch))

    state: list = []
    recorder.capture = capture
    yield
    recorder.capture = None
    calls, autocast = _main_model(kept, state)
    bench = _Bench(torch, calls, autocast)
    try:
        return _measure(torch, bench, experiments.plan["variants"], quickest)
    finally:
        bench.restore()


def _measure(torch, bench, wanted, quickest):
    calls = bench.calls
    bench.calls = calls[:4]
    bench.separate()  # the first ones allocate
    begun = time.perf_counter()
    bench.separate()
    one = (time.perf_counter() - begun) / len(bench.calls)
    bench.calls = calls[: max(2, int(_LONGEST_SECONDS / one))]
    variants = {"separate": bench.separate}
    notes = {}
    if "joined" in wanted and len(bench.calls) > 1:
        try:
            bench.join()
            variants["joined"] = bench.together
        except Exception as error:
            notes["joined"] = repr(error)[:300]
    apart = quickest(variants, _SECONDS / 3)
    used = bench.calls
    bench.calls = used[: max(1, int(_LONGEST_SECONDS / 2 / one))]
    others = quickest(_others(torch, bench, wanted), _SECONDS / 3)
    bench.calls = used
    again = quickest(variants, _SECONDS / 3)
    # Of two moments the quieter one, both variants from the same: a joined call may need a second core that a
    # neighbour holds for a while, and then looks several times dearer than it is.
    result = min((apart, again), key=lambda moment: (len(moment["errors"]), sum(moment["seconds"].values())))
    result.update(calls=len(calls), used=len(used), dtype=bench.dtype, autocast=bench.autocast_name)
    result["errors"].update(notes)
    result["variants"] = others
    return result


def _others(torch, bench, wanted):
    """The calls as they are, and otherwise."""
    variants = {"as it is": bench.separate}
    for name in wanted:
        if name.startswith("threads:"):
            variants[name] = _with_threads(torch, int(name.partition(":")[2]), bench.separate)
        elif name == "kept":
            variants[name] = _without_recomputing(torch, bench.separate)
        elif name in ("bfloat16", "float16", "no autocast", "float32"):
            function = bench.in_precision(name)
            if function is not None:
                variants[name] = function
    return variants


def _without_recomputing(torch, function):
    """`function` with activation checkpointing switched off, whoever holds a reference to `checkpoint`."""
    module = torch.utils.checkpoint

    def plain_generator(*args, **kwargs):
        yield

    def plain_apply(run_function, preserve, *args):
        return run_function(*args)

    def run():
        generator, apply = module._checkpoint_without_reentrant_generator, module.CheckpointFunction.apply
        module._checkpoint_without_reentrant_generator = plain_generator
        module.CheckpointFunction.apply = plain_apply
        try:
            function()
        finally:
            module._checkpoint_without_reentrant_generator = generator
            module.CheckpointFunction.apply = apply

    return run


def _main_model(kept, state):
    """The calls of the model with the most parameters to train, and the autocast they ran under."""
    if not kept:
        raise ValueError("no module was called with gradients")
    sizes = {id(m): sum(p.numel() for p in m.parameters() if p.requires_grad) for m, _, _ in kept}
    main = max(sizes, key=lambda key: sizes[key])
    calls = [call for call in kept if id(call[0]) == main]
    autocast = next(s for s, call in zip(state, kept) if id(call[0]) == main)
    return calls, autocast


def _autocast(torch):
    """(device type, dtype) of the autocast in force, or None."""
    for device in ("cuda", "cpu"):
        with contextlib.suppress(Exception):
            if torch.is_autocast_enabled(device):
                return device, torch.get_autocast_dtype(device)
    return None


class _Bench:
    """One model and some inputs of it."""

    def __init__(self, torch, calls, autocast) -> None:
        self.torch = torch
        model = calls[0][0]
        self.distributed = type(model).__name__ == "DistributedDataParallel"
        self.model = model.module if self.distributed else model
        self.compiled = type(model).__name__ == "OptimizedModule" or bool(
            getattr(self.model, "_compiled_call_impl", None)
        )
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.grads = [p.grad for p in self.parameters]
        self.calls = [(_detached(torch, args), _detached(torch, kwargs)) for _, args, kwargs in calls]
        self.joined = None
        self.autocast = autocast
        first = next(self.model.parameters(), None)
        self.dtype = None if first is None else str(first.dtype).rpartition(".")[2]
        self.device = "cpu" if first is None else first.device.type
        self.autocast_name = None if autocast is None else str(autocast[1]).rpartition(".")[2]

    def restore(self) -> None:
        """Gradients as they were."""
        for parameter, grad in zip(self.parameters, self.grads):
            parameter.grad = grad

    def _context(self):
        if self.autocast is None:
            return contextlib.nullcontext()
        return self.torch.autocast(self.autocast[0], dtype=self.autocast[1])

    def _once(self, model, args, kwargs, context) -> None:
        with context:
            output = model(*args, **kwargs)
        loss = _sum(self.torch, output)
        if loss is None:
            raise ValueError("no output has a gradient")
        if self.distributed:  # its hooks would start an exchange of gradients
            self.torch.autograd.grad(loss, self.parameters, allow_unused=True)
        else:
            for parameter in self.parameters:
                parameter.grad = None
            loss.backward()
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def separate(self) -> None:
        """Every call by itself."""
        for args, kwargs in self.calls:
            self._once(self.model, args, kwargs, self._context())

    def join(self) -> None:
        """Prepare all inputs as one batch, shorter ones filled up."""
        if self.compiled:
            raise ValueError("a compiled model would compile anew for another batch")
        self.joined = _joined(self.torch, self.calls)

    def together(self) -> None:
        """All inputs in one call."""
        args, kwargs = self.joined
        self._once(self.model, args, kwargs, self._context())

    def in_precision(self, name: str):
        """`separate` in another precision, or None where that is what it already is."""
        torch = self.torch
        if self.compiled:
            return None
        if name == "no autocast":
            if self.autocast is None:
                return None
            return lambda: [
                self._once(self.model, args, kwargs, contextlib.nullcontext()) for args, kwargs in self.calls
            ]
        if name == "float32":
            if self.dtype in ("float32", None):
                return None
            import copy

            model = copy.deepcopy(self.model).float()
            calls = [(_cast(torch, args), _cast(torch, kwargs)) for args, kwargs in self.calls]
            return lambda: [
                self._once(model, args, kwargs, contextlib.nullcontext()) for args, kwargs in calls
            ]
        if self.autocast is not None or self.dtype != "float32":
            return None
        dtype = getattr(torch, name)
        return lambda: [
            self._once(self.model, args, kwargs, torch.autocast(self.device, dtype=dtype))
            for args, kwargs in self.calls
        ]


def _with_threads(torch, number: int, function):
    def run() -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(number)
        try:
            function()
        finally:
            torch.set_num_threads(before)

    return run


def _map(torch, value, function, depth: int = 0):
    """`value` with every tensor in it replaced."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if depth < 4:
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(_map(torch, v, function, depth + 1) for v in value))
        if isinstance(value, (list, tuple)):
            return type(value)(_map(torch, v, function, depth + 1) for v in value)
        if isinstance(value, dict):
            return {k: _map(torch, v, function, depth + 1) for k, v in value.items()}
    return value


def _detached(torch, value):
    """Inputs cut off from what computed them: that graph is gone."""
    return _map(torch, value, lambda t: t.detach().requires_grad_(t.requires_grad))


def _cast(torch, value):
    def cast(tensor):
        if not tensor.is_floating_point():
            return tensor
        return tensor.detach().float().requires_grad_(tensor.requires_grad)

    return _map(torch, value, cast)


def _joined(torch, calls):
    """All inputs as one batch. Raises where they do not go together."""
    return _join(torch, [list(args) for args, _ in calls]), _join(torch, [kwargs for _, kwargs in calls])


def _join(torch, values):
    first = values[0]
    if isinstance(first, torch.Tensor):
        return first if first.dim() == 0 else _stacked(torch, values)
    if isinstance(first, dict):
        return {k: _join(torch, [v[k] for v in values]) for k in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(_join(torch, list(v)) for v in zip(*values)))
    if isinstance(first, (list, tuple)):
        if not any(isinstance(v, (torch.Tensor, dict, list, tuple)) for v in first):
            return type(first)(item for value in values for item in value)
        return type(first)(_join(torch, list(v)) for v in zip(*values))
    if isinstance(first, int) and not isinstance(first, bool):
        return max(values)
    return first


def _stacked(torch, tensors):
    """Tensors one after the other in dimension 0, filled up with zeros where they are shorter."""
    tensors = [t.detach() for t in tensors]
    shape = [max(t.shape[d] for t in tensors) for d in range(1, tensors[0].dim())]
    filled = []
    for tensor in tensors:
        if list(tensor.shape[1:]) == shape:
            filled.append(tensor)
        else:
            whole = tensor.new_zeros([tensor.shape[0], *shape])
            whole[tuple(slice(0, n) for n in tensor.shape)] = tensor
            filled.append(whole)
    return torch.cat(filled)


def _sum(torch, output):
    """A scalar that depends on everything the model returned, or the loss it computed itself."""
    loss = getattr(output, "loss", None)
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        return loss.sum()
    found: list = []
    _map(torch, dict(output) if hasattr(output, "items") else output, found.append)
    parts = [t.float().sum() for t in found if t.requires_grad and t.is_floating_point()]
    return sum(parts[1:], parts[0]) if parts else None
