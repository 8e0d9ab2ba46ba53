"""How much each label counts: the mean of micro-batch means against the mean over all labels.

With nᵢ labels in micro-batch i of G, N in all, a mean of means weighs a label of micro-batch i by 1/(G·nᵢ) instead of
1/N: off by the factor N/(G·nᵢ). Gradient sketches are linear, so the hypothesis can be tried: reweight the
micro-batches of both sides by nᵢ and see whether the difference is gone.
"""

from __future__ import annotations

from collections.abc import Sequence

from upshift.verify.compare import norm
from upshift.verify.trace import MicroBatch, Step, Vector


def labels(micro: MicroBatch) -> int | None:
    """Labels that count in a micro-batch: of its losses, the one over most labels."""
    counts = [call.labels for call in micro.calls if call.labels]
    return max(counts) if counts else None


def label_counts(step: Step) -> tuple[int, ...] | None:
    """By micro-batch, None where a loss does not tell."""
    found = [labels(m) for m in step.micro]
    return tuple(n for n in found if n is not None) if found and None not in found else None


def distortion(counts: Sequence[int]) -> float:
    """Max |N/(G·nᵢ) − 1|: 0 if all micro-batches hold as many labels."""
    if not counts or not all(counts):
        return 0.0
    total = sum(counts)
    return max(abs(total / (len(counts) * n) - 1.0) for n in counts)


def averaged(step: Step) -> bool:
    """Every micro-batch's loss is a mean over its own labels."""
    return all(any(call.reduction == "mean" for call in m.calls) for m in step.micro) and bool(step.micro)


def reweighted(step: Step) -> Vector | None:
    """The gradient with every micro-batch weighed by its labels, from the sketches after each backward."""
    counts = label_counts(step)
    if counts is None or len(step.micro_sketches) != len(counts) or step.ranks != 1:
        return None
    total = sum(counts)
    sketch = [0.0] * len(step.sketch)
    before: Vector = tuple(sketch)
    for accumulated, n in zip(step.micro_sketches, counts, strict=True):
        weight = len(counts) * n / total
        for i, (now, then) in enumerate(zip(accumulated, before, strict=True)):
            sketch[i] += weight * (now - then)
        before = accumulated
    return tuple(sketch)


def difference_once_reweighted(a: Step, b: Step) -> float | None:
    """ε between the two steps if both weighed every label alike."""
    left, right = reweighted(a), reweighted(b)
    if left is None or right is None:
        return None
    size = norm(left)
    return norm(tuple(y - x for x, y in zip(left, right, strict=True))) / size if size else None
