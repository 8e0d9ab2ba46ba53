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
    half = _t(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
    high = math.exp(middle + half) if half < 50 else math.inf
    return Speedup(ratio=math.exp(middle), low=math.exp(middle - half), high=high, pairs=len(logs))


FROM_ONE_START = 5
"""Ratios that one start of both runs gives, and the fewest to speak of."""
_MOST = 10
_CLEAR = 1.3
"""Above, it does not matter that no two starts are alike by a per cent or two; below, a second one is waited for."""
_WIDTH = 0.06
"""From the low end of an interval to the high one: narrower is not needed."""
_OF_THE_GAIN = 0.5
"""Nor an interval narrower than that part of the gain: six times or seven, the config is the same."""


def confirm(
    pairs: Iterator[float],
    precision: float | None = None,
    in_time: Callable[[], bool] = lambda: True,
) -> Speedup | None:
    """Pairs until they say enough, or the speed-up is known to `precision`. None if the runs do not go on."""
    ratios: list[float] = []
    for ratio in pairs:
        ratios.append(ratio)
        if len(ratios) >= FROM_ONE_START and (_enough(speedup(ratios), precision) or not in_time()):
            break
    return speedup(ratios) if len(ratios) >= FROM_ONE_START else None


def _enough(found: Speedup, precision: float | None) -> bool:
    if precision is not None:
        return found.high / found.low - 1 <= 2 * precision
    if found.low < _CLEAR and found.pairs <= FROM_ONE_START:
        return False
    width = found.high - found.low
    return (
        found.pairs >= _MOST
        or width <= max(_WIDTH * found.ratio, _OF_THE_GAIN * (found.ratio - 1))
        or found.high < 0.98
    )
