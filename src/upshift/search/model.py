"""Time of a step from two or three micro-batches: t(b) = G·(α + β·b) + T, with G·b the effective batch."""

from __future__ import annotations

import math
from collections.abc import Sequence


def divisors(number: int) -> list[int]:
    """In order."""
    return [d for d in range(1, number + 1) if number % d == 0]


def predict(points: Sequence[tuple[int, float]], effective: int) -> dict[int, float]:
    """Samples a second by micro-batch, from (micro-batch, samples a second) that were measured.

    Per sample a step costs α/b + c: a line in 1/b, through the two points that enclose or are nearest to b.
    """
    known = sorted({b: rate for b, rate in points}.items())
    found = {}
    for b in divisors(effective):
        if len(known) < 2:
            break
        left = [p for p in known if p[0] <= b] or known[:1]
        right = [p for p in known if p[0] >= b] or known[-1:]
        low, high = left[-1], right[0]
        if low == high:
            low, high = (known[0], known[1]) if b <= known[0][0] else (known[-2], known[-1])
            if b in dict(known):
                found[b] = dict(known)[b]
                continue
        (b0, r0), (b1, r1) = low, high
        alpha = (1 / r0 - 1 / r1) / (1 / b0 - 1 / b1)
        per_sample = 1 / r1 - alpha / b1
        cost = alpha / b + per_sample
        found[b] = 1 / cost if cost > 0 else r1
    return found


LONG_STRIDE, SHORT_STRIDE = 16, 4
"""Times as large as now: the first other micro-batch. Short where memory is limited."""


def next_micro_batch(
    points: Sequence[tuple[int, float]], failed: Sequence[int], effective: int, stride: int = LONG_STRIDE
) -> int | None:
    """The one worth a trial, or None: enough is known."""
    tried = {b for b, _ in points} | set(failed)
    sizes = [d for d in divisors(effective) if d not in tried and (not failed or d < min(failed))]
    if not sizes:
        return None
    best_b, best_rate = max(points, key=lambda p: p[1])
    if len(points) == 1:
        larger = [d for d in sizes if d > best_b]
        if not larger:
            return max(sizes) if best_b == effective else None
        # Far away first: two near points tell little about the line between them.
        return min(larger, key=lambda d: abs(d - min(stride * best_b, effective)))
    if len(points) == 2 and best_b == min(points)[0]:
        # The larger one is slower, and the line knows nothing of a summit between the two.
        far = max(points)[0]
        between = [d for d in sizes if best_b < d < far]
        if between:
            return min(between, key=lambda d: abs(d - math.sqrt(best_b * far)))
    expected = predict(points, effective)
    promising = [d for d in sizes if expected.get(d, 0.0) > 1.03 * best_rate]
    if promising:
        return max(promising, key=lambda d: expected[d])
    # The neighbours of the best are tried once each: the line does not know caches.
    above = [d for d in sizes if d > best_b]
    below = [d for d in sizes if d < best_b]
    nearest = max(below, default=0)
    turned = any(b > best_b and rate < 0.97 * best_rate for b, rate in points)
    if turned and nearest and not any(nearest < b < best_b for b, _ in points) and len(points) < 6:
        return nearest  # larger is slower here, which the line cannot know: the best may lie lower still
    if (
        below
        and max(below) * 2 >= best_b
        and expected.get(max(below), 0.0) > 0.97 * best_rate
        and len(points) < 4
    ):
        return max(below)
    if above and expected.get(min(above), 0.0) > best_rate and len(points) < 5:
        return min(above)
    return None
