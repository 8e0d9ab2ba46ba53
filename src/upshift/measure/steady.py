"""Which steps count: warm-up cut by detection, the median with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

_CLOSE = 0.10
"""A step this near the settled median (or within three spreads) is settled too."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A median with its 95 % confidence interval from order statistics, seconds."""

    median: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval, as a share of the median."""
        return (self.high - self.low) / 2 / self.median if self.median else math.inf


def warmup(seconds: Sequence[float]) -> int:
    """How many leading steps to drop: up to the first two in a row that look like the settled second half."""
    settled = seconds[len(seconds) // 2 :]
    if len(settled) < 2:
        return 0
    middle = median(settled)
    spread = median(abs(s - middle) for s in settled) * 1.4826
    limit = middle + max(3 * spread, _CLOSE * middle)
    for index in range(len(seconds) // 2):
        if seconds[index] <= limit and seconds[index + 1] <= limit:
            return index
    return len(seconds) // 2


def interval(seconds: Sequence[float]) -> Interval:
    """Median and the order statistics that hold it with 95 % confidence (min and max for few steps)."""
    ordered = sorted(seconds)
    n = len(ordered)
    reach = 0.98 * math.sqrt(n)
    low = max(0, math.floor(n / 2 - reach))
    high = min(n - 1, math.ceil(n / 2 + reach))
    return Interval(median=median(ordered), low=ordered[low], high=ordered[high])
