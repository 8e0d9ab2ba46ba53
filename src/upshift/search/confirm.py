"""A speed-up is a ratio of runs beside each other, with an interval; one whose interval holds 1 is not claimed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

# Student's t, two-sided 95 %, by degrees of freedom; beyond, near enough.
_T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}


def _t(freedom: int) -> float:
    return _T.get(freedom, 1.96 + 2.6 / freedom)


Pair = tuple[float, float]
"""Seconds for the same work: as it is, and changed."""


@dataclass(frozen=True, kw_only=True)
class Speedup:
    """How many times as fast."""

    ratio: float
    low: float
    high: float
    pairs: int

    @property
    def claimed(self) -> bool:
        """Is it more than noise?"""
        return self.low > 1.0


def speedup(pairs: Sequence[Pair]) -> Speedup:
    """All the time of the one over all the time of the other: steps differ, and a training is made of all of them."""
    before, after = (mean(side) for side in zip(*pairs, strict=True))
    ratio = before / after
    half = math.inf
    if len(pairs) > 1:
        apart = stdev(b / before - a / after for b, a in pairs)  # the ratio's error, to the first order
        half = _t(len(pairs) - 1) * apart / math.sqrt(len(pairs))
    high = ratio * math.exp(half) if half < 50 else math.inf
    return Speedup(ratio=ratio, low=ratio * math.exp(-half), high=high, pairs=len(pairs))


_FEWEST, _MOST = 5, 10
_WIDTH = 0.06
"""From the low end of an interval to the high one: narrower is not needed."""
_OF_THE_GAIN = 0.5
"""Nor an interval narrower than that part of the gain: six times or seven, the config is the same."""


def confirm(
    pairs: Iterator[Pair],
    precision: float | None = None,
    in_time: Callable[[], bool] = lambda: True,
) -> Speedup | None:
    """Pairs until they say enough, or the speed-up is known to `precision`. None if the runs do not go on."""
    found: list[Pair] = []
    for pair in pairs:
        found.append(pair)
        if len(found) >= _FEWEST and (_enough(speedup(found), precision) or not in_time()):
            break
    return speedup(found) if len(found) >= _FEWEST else None


def _enough(found: Speedup, precision: float | None) -> bool:
    if precision is not None:
        return found.high / found.low - 1 <= 2 * precision
    width = found.high - found.low
    return (
        found.pairs >= _MOST
        or width <= max(_WIDTH * found.ratio, _OF_THE_GAIN * (found.ratio - 1))
        or found.high < 0.98
    )
