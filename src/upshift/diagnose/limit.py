"""How far the limit is: the arithmetic of a step against what this machine does, and how much faster the input is."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from upshift.diagnose.finding import Evidence

# Dense peak of known GPUs, operations a second: what the maker states, beside what was measured here.
_STATED = {
    "A100": {"float32": 19.5e12, "bfloat16": 312e12, "float16": 312e12},
    "H100": {"float32": 67e12, "bfloat16": 989e12, "float16": 989e12},
    "L4": {"float32": 30.3e12, "bfloat16": 121e12, "float16": 121e12},
    "T4": {"float32": 8.1e12, "float16": 65e12},
    "V100": {"float32": 15.7e12, "float16": 125e12},
    "RTX 3090": {"float32": 35.6e12, "bfloat16": 71e12, "float16": 71e12},
    "RTX 4070": {"float32": 29.1e12, "bfloat16": 58e12, "float16": 58e12},
    "RTX 4090": {"float32": 82.6e12, "bfloat16": 165e12, "float16": 165e12},
}


_WAITS = 0.05


@dataclass(frozen=True, kw_only=True)
class Limit:
    """Compute and input of one run, against what could be."""

    flops: float
    """Operations of one step: matrix products, convolutions, attention, recurrent layers, forward and backward."""
    share: float
    """Time those would take at the machine's measured speed, over the time of a step."""
    peak: dict[str, float]
    """Operations a second by dtype, measured here with large matrix products."""
    stated: dict[str, float] | None
    """The same from the maker, where the device is known."""
    bandwidth: float
    """Bytes a second of a large copy, measured here."""
    threads: int
    input_factor: float | None
    """How many times faster the loader could deliver than the training takes; None: not measured."""


def limit(e: Evidence) -> Limit | None:
    """From the experiments `ceiling` and `loading`; None where the first could not run."""
    result = e.result("ceiling")
    if not result or not result["peak"]:
        return None
    slowest = min(result["peak"].values())
    at_peak = sum(flops / result["peak"].get(dtype, slowest) for dtype, flops in result["by_dtype"].items())
    return Limit(
        flops=result["flops"],
        share=_share(e, at_peak),
        peak=result["peak"],
        stated=next((v for name, v in _STATED.items() if name in str(result["device"])), None),
        bandwidth=result["bandwidth"],
        threads=result["threads"],
        input_factor=_input(e),
    )


def _share(e: Evidence, at_peak: float) -> float:
    """Of steps beside products where they are steps like the run's, and the run's own median step elsewhere."""
    beside = e.result("ceiling").get("beside") or ()
    workers = e.loader is not None and e.loader["workers"]
    if len(beside) < 2 or (workers and e.phase("data_wait") > _WAITS):
        return at_peak / e.profile.step.median  # workers fill their queue while the products run
    return median([float(at_peak / speed / seconds) for seconds, speed in beside])


def _input(e: Evidence) -> float | None:
    result = e.result("loading")
    fetches = sum(m.fetches for i in e.used for m in i.micro) / len(e.used) if e.used else 0.0
    if not result or not fetches or result["seconds"] <= 0:
        return None
    could: float = result["batches"] / result["seconds"]
    return could / (fetches / e.profile.step_mean)
