"""How much arithmetic a real step holds, and how fast this machine does arithmetic of that kind."""

from __future__ import annotations

import time

_SIZES = {"cpu": (256, 512, 1024), "cuda": (4096, 8192)}
_SLOW_SECONDS = 0.3
_COPIED_BYTES = {"cpu": 64 << 20, "cuda": 1 << 30}
_SECONDS = 0.3
_MOMENT = 0.08
_BESIDE, _BESIDE_SECONDS = 16, 4.0
"""Steps with products beside them: so many, or so long, but two."""


def run(experiments):
    """Count one step of the loop, then time matrix products and copies; a few steps with a product on either side.

    `beside`: (seconds of a step, speed of the products round it over `peak`). The machine's speed changes in seconds,
    and the share of the limit is a ratio of two of its speeds: they are taken together.
    """
    torch = experiments.torch
    if experiments.optimizer is None:
        device, dtype = experiments.recorder.device or "cpu", torch.get_default_dtype()
    else:
        groups = experiments.optimizer.param_groups
        largest = max((p for group in groups for p in group["params"]), key=lambda p: p.numel())
        device, dtype = largest.device.type, largest.dtype
    counter = _counter(torch)
    eager = _eager(torch)
    eager.__enter__()
    counter.__enter__()
    try:
        yield
    finally:
        counter.__exit__(None, None, None)
        eager.__exit__(None, None, None)
    names = {str(dtype).rpartition(".")[2], *counter.dtypes}
    found = {name: _matmul(torch, device, getattr(torch, name)) for name in sorted(names) if "float" in name}
    peaks = {name: rate for name, (rate, _) in found.items()}
    main = max(found, key=lambda name: counter.dtypes.get(name, 0))
    beside: list = []
    begun = last = time.perf_counter()
    while peaks[main] and len(beside) < _BESIDE and (len(beside) < 2 or last - begun < _BESIDE_SECONDS):
        before = found[main][1]()
        start = time.perf_counter()
        yield
        last = time.perf_counter()
        beside.append((last - start, (before + found[main][1]()) / 2 / peaks[main]))
    return {
        "flops": counter.flops,
        "by_dtype": counter.dtypes,
        "peak": peaks,
        "beside": beside,
        "bandwidth": _copy(torch, device),
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "threads": torch.get_num_threads(),
    }


def _eager(torch):
    """Compiled code hides its operations from a count: this one step runs without."""
    import contextlib
    import sys

    if "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance"):
        return torch.compiler.set_stance("force_eager")
    return contextlib.nullcontext()


def _counter(torch):
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    class Counter(TorchDispatchMode):
        """Sums the arithmetic of matrix products, convolutions, attention and recurrent layers."""

        def __init__(self) -> None:
            super().__init__()
            self.flops = 0
            self.dtypes: dict = {}

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            out = func(*args, **kwargs)
            packet = func._overloadpacket
            formula = flop_registry.get(packet)
            if formula is not None:
                self._add(formula(*args, **kwargs, out_val=out), args)
            elif "rnn" in packet.__name__:
                self._add(_recurrent(torch, packet.__name__, args), args)
            return out

        def _add(self, flops, args) -> None:
            dtype = next((str(a.dtype).rpartition(".")[2] for a in args if isinstance(a, torch.Tensor)), "")
            self.flops += flops
            self.dtypes[dtype] = self.dtypes.get(dtype, 0) + flops

    return Counter()


def _recurrent(torch, name: str, args) -> int:
    """Every weight matrix is applied at every place of the sequence; the backward does it twice more."""
    tensors = [t for a in args for t in (a if isinstance(a, (list, tuple)) else (a,))]
    tensors = [t for t in tensors if isinstance(t, torch.Tensor)]
    if not tensors or tensors[0].dim() != 3:
        return 0
    places = tensors[0].shape[0] * tensors[0].shape[1]
    weights = sum(t.numel() for t in tensors[1:] if t.dim() == 2)
    return 2 * places * weights * (2 if "backward" in name else 1)


def _best(function, work: float, wait) -> float:
    rates = []
    begun = time.perf_counter()
    rounds = 0
    while rounds < 4 or time.perf_counter() - begun < _SECONDS:
        start = time.perf_counter()
        function()
        wait()
        rates.append(work / (time.perf_counter() - start))
        rounds += 1
    # Not the one best moment: a step has ordinary ones. The slower half is the neighbours' doing.
    rates.sort(reverse=True)
    return rates[len(rates) // 4]


def _matmul(torch, device: str, dtype):
    """(operations a second of a large matrix product, a function that looks again for a moment)."""
    best, product = 0.0, None
    wait = _wait(torch, device)
    for size in _SIZES.get(device, _SIZES["cpu"]):
        # Random, as a training's are: a device does equal numbers faster, with less power.
        a = torch.randn(size, size, device=device).to(dtype)
        b = torch.randn(size, size, device=device).to(dtype)
        work = 2.0 * size**3
        with torch.no_grad():
            rate = _best(lambda a=a, b=b: torch.mm(a, b), work, wait)
        if rate > best:
            best, product = rate, (a, b, work)
        if best and 8 * work / best > _SLOW_SECONDS:
            break  # emulated: the next size would take long

    def again() -> float:
        a, b, work = product
        done, begun = 0, 0.0
        with torch.no_grad():
            while done < 2 or time.perf_counter() - begun < _MOMENT:
                torch.mm(a, b)
                wait()
                # The first finds the caches cold. All the others count, slow ones too: a step has them as well.
                done, begun = done + 1, begun or time.perf_counter()
        return work * (done - 1) / (time.perf_counter() - begun)

    return best, again


def _copy(torch, device: str) -> float:
    """Bytes a second, read and written, of a copy too large for the caches."""
    source = torch.ones(_COPIED_BYTES.get(device, 64 << 20) // 4, device=device)
    target = torch.empty_like(source)
    with torch.no_grad():
        return _best(lambda: target.copy_(source), 2.0 * source.numel() * 4, _wait(torch, device))


def _wait(torch, device: str):
    return torch.cuda.synchronize if device == "cuda" else lambda: None
