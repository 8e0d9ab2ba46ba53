"""Two steps → what they differ by: ρ = ⟨g₀,g₁⟩/‖g₀‖², ε = ‖g₁−g₀‖/‖g₀‖, by tensor too; loss, rates, samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from upshift.verify.samples import namings, same_indices, same_samples
from upshift.verify.trace import Step, Trace, Vector


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One step of b against the same step of a."""

    step: int
    rho: float
    epsilon: float
    residual: float
    """What is left of ε once b is scaled back by ρ."""
    tensors: tuple[float, ...]
    """ε by tensor, against the tensor's own norm (or a thousandth of the whole, where that is more)."""
    update_epsilon: float | None
    loss_a: float | None
    loss_b: float | None
    rates_equal: bool
    samples: bool | None
    """The same multiset; None where it cannot be told."""
    indices: bool | None
    """The same samples of the dataset, whatever their content; None without a loader."""
    identical: bool
    """Bit for bit, as far as sketches tell."""


def compare(a: Trace, b: Trace) -> tuple[Difference, ...]:
    """All steps both have."""
    count = min(len(a.steps), len(b.steps))
    known = namings((a.steps[:count], b.steps[:count]))
    found = []
    for i in range(count):
        left, right = a.steps[i], b.steps[i]
        if len(left.sketch) != len(right.sketch):
            break
        found.append(_difference(i, left, right, a.width, same_samples(left, right, known)))
    return tuple(found)


def _difference(number: int, a: Step, b: Step, width: int, samples: bool | None) -> Difference:
    size = norm(a.sketch)
    rho = dot(a.sketch, b.sketch) / size**2 if size else (1.0 if not norm(b.sketch) else math.inf)
    residual = tuple(y / rho - x for x, y in zip(a.sketch, b.sketch, strict=True)) if rho and size else ()
    return Difference(
        step=number,
        rho=rho,
        epsilon=relative(a.sketch, b.sketch),
        residual=norm(residual) / size if residual else 0.0,
        tensors=_by_tensor(a.sketch, b.sketch, width),
        update_epsilon=relative(a.update, b.update) if a.update and b.update else None,
        loss_a=a.loss,
        loss_b=b.loss,
        rates_equal=_rates_equal(a.rates, b.rates),
        samples=samples,
        indices=same_indices(a, b),
        identical=a.sketch == b.sketch and a.update == b.update,
    )


def _rates_equal(a: Sequence[float], b: Sequence[float]) -> bool:
    return len(a) == len(b) and all(math.isclose(x, y, rel_tol=1e-6) for x, y in zip(a, b, strict=True))


def _by_tensor(a: Vector, b: Vector, width: int) -> tuple[float, ...]:
    least = norm(a) * 1e-3
    found = []
    for start in range(0, len(a), max(1, width)):
        left, right = a[start : start + width], b[start : start + width]
        size = max(norm(left), least)
        off = norm(tuple(y - x for x, y in zip(left, right, strict=True)))
        found.append(off / size if size else (0.0 if not off else math.inf))
    return tuple(found)


def relative(a: Vector, b: Vector) -> float:
    """‖b−a‖/‖a‖."""
    size = norm(a)
    off = norm(tuple(y - x for x, y in zip(a, b, strict=True)))
    return off / size if size else (0.0 if not off else math.inf)


def norm(vector: Sequence[float]) -> float:
    """Euclidean."""
    return math.sqrt(math.fsum(x * x for x in vector))


def dot(a: Vector, b: Vector) -> float:
    """Inner product."""
    return math.fsum(x * y for x, y in zip(a, b, strict=True))
