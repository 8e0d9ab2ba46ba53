"""A speed-up is a ratio of runs beside each other, with an interval; one whose interval holds 1 is not claimed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

# Student's t, two-sided 95 %, by degrees of freedom.
_T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}


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


def speedup(ratios: Sequence[float]) -> Speedup:
    """From the ratios of pairs."""
    logs = [math.log(r) for r in ratios]
    middle = mean(logs)
    half = _T.get(len(logs) - 1, 2.0) * stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
    high = math.exp(middle + half) if half < 50 else math.inf
    return Speedup(ratio=math.exp(middle), low=math.exp(middle - half), high=high, pairs=len(logs))


def confirm(
    pairs: Iterator[float],
    fewest: int = 5,
    most: int = 10,
    narrow: float = 0.03,
    in_time: Callable[[], bool] = lambda: True,
) -> Speedup | None:
    """Pairs until the interval is narrow: less so where it is clear of 1. None if the runs do not go on."""
    ratios: list[float] = []
    for ratio in pairs:
        ratios.append(ratio)
        if len(ratios) < fewest:
            continue
        if len(ratios) == most or not in_time():
            break
        found = speedup(ratios)
        width = found.high / found.low - 1
        if width <= 2 * narrow or (found.low > 1.1 and width <= 4 * narrow) or found.high < 0.98:
            break
    return speedup(ratios) if len(ratios) >= fewest else None
