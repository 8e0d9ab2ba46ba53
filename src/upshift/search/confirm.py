"""A speed-up is a ratio of runs beside each other, with an interval; one whose interval holds 1 is not claimed.

Two things make a ratio uncertain. Steps differ in what they gain. And starts differ: the same command may be a third
faster than when it was started before, for its whole life, by how its heap came to lie. So both runs are started
several times, and the interval holds both doubts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import stdev

# Student's t, two-sided 95 %, by degrees of freedom; beyond, near enough.
_T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}


def _t(freedom: int) -> float:
    return _T.get(freedom, 1.96 + 2.6 / freedom)


Pair = tuple[float, float]
"""Seconds for the same work: as it is, and changed."""
Heat = tuple[Pair, ...]
"""One start of both runs: pairs in the order of their steps, which are the same steps in every heat."""


@dataclass(frozen=True, kw_only=True)
class Speedup:
    """How many times as fast."""

    ratio: float
    low: float
    high: float
    starts: int
    """Of both runs."""

    @property
    def claimed(self) -> bool:
        """Is it more than noise?"""
        return self.low > 1.0


def speedup(heats: Sequence[Heat]) -> Speedup:
    """All the time of the one over all the time of the other: steps differ, and a training is made of all of them."""
    before, after = total([pair for heat in heats for pair in heat])
    ratio = before / after
    half = math.inf
    if len(heats) > 1:
        starts, steps = _doubts(heats)
        # Noise is in both, and is not doubted twice: the variance of means in two ways, less that of single pairs.
        noise = _error([pair for heat in heats for pair in heat])
        half = max(starts, steps, noise, math.sqrt(max(0.0, starts**2 + steps**2 - noise**2)))
    high = ratio * math.exp(half) if half < 50 else math.inf
    return Speedup(ratio=ratio, low=ratio * math.exp(-half), high=high, starts=len(heats))


def _doubts(heats: Sequence[Heat]) -> tuple[float, float]:
    """Half the interval, as a share: for starts that differ, and for steps that do."""
    by_start = [total(heat) for heat in heats]
    by_step = [total([p for p in pairs if p is not None]) for pairs in zip_longest(*heats)]
    return _error(by_start), _error(by_step)


def total(pairs: Sequence[Pair]) -> Pair:
    """Of both sides."""
    return sum(before for before, _ in pairs), sum(after for _, after in pairs)


def _error(pairs: Sequence[Pair]) -> float:
    """Half the interval of the ratio of their sums, as a share, to the first order; one pair shows nothing of it."""
    if len(pairs) < 2:
        return 0.0
    before, after = (seconds / len(pairs) for seconds in total(pairs))
    apart = stdev([b / before - a / after for b, a in pairs])
    return _t(len(pairs) - 1) * apart / math.sqrt(len(pairs))


_FEWEST, _FEWEST_IF_CLOSE, _MOST = 2, 3, 8
"""Starts."""
_CLOSE = 2.0
"""Below it, the luck of two starts could look like a gain."""
_WIDTH = 0.06
"""From the low end of an interval to the high one: narrower is not needed."""
_OF_THE_GAIN = 0.5
"""Nor an interval narrower than that part of the gain: six times or seven, the config is the same."""


def confirm(
    heats: Iterator[Heat],
    precision: float | None = None,
    in_time: Callable[[], bool] = lambda: True,
) -> Speedup | None:
    """Starts until they say enough, or the speed-up is known to `precision`. None if the runs do not go on."""
    found: list[Heat] = []
    for heat in heats:
        found.append(heat)
        if _started_often_enough(found) and (_enough(speedup(found), precision) or not in_time()):
            break
    return speedup(found) if _started_often_enough(found) else None


def _started_often_enough(found: Sequence[Heat]) -> bool:
    if len(found) >= _FEWEST_IF_CLOSE:
        return True
    # Two that differ say next to nothing.
    return len(found) >= _FEWEST and speedup(found).ratio >= _CLOSE and speedup(found).claimed


def _enough(found: Speedup, precision: float | None) -> bool:
    if precision is not None:
        return found.high / found.low - 1 <= 2 * precision
    width = found.high - found.low
    return (
        found.starts >= _MOST
        or width <= max(_WIDTH * found.ratio, _OF_THE_GAIN * (found.ratio - 1))
        or found.high < 0.98
    )


_MOST_LOOKS = 3
_CLEAR = 1.1
"""A trial that has shown more than that is not refuted by one start."""


def second_look(heats: Iterator[Heat], least: float, gain: float | None = None) -> float | None:
    """The ratio, from as few starts as agree with each other, and with a trial's `gain`; None: no heat.

    One that sees the gain again, or does not see one that was small; else two on the same side of `least`, or three.
    """
    found: list[Heat] = []
    for heat in heats:
        found.append(heat)
        ratios = [before / after for before, after in map(total, found)]
        if gain is not None and (ratios[0] >= least or gain < _CLEAR):
            break
        if len(found) >= _MOST_LOOKS or (len(found) > 1 and len({r >= least for r in ratios}) == 1):
            break
    return speedup(found).ratio if found else None


_FEWEST_PAIRS = 2
_LONGEST_HEAT = 12.0
_STEADY = 0.04
_OF_STEPS = 0.2
"""Half the interval that steps may leave, as a part of the gain: starts leave theirs beside it."""


def heat_is_enough(pairs: Heat, seconds: float, before: Sequence[Heat] = ()) -> bool:
    """Of one start, asked for so many seconds, after others: going on a while is cheaper than starting anew.

    Not yet where steps differ so much that the speed-up could not be told, whatever the starts say.
    """
    raced = total(pairs)
    if sum(raced) < seconds or len(pairs) < _FEWEST_PAIRS:
        return False
    bearable = max(_STEADY, _OF_STEPS * (1 - raced[1] / raced[0]))
    if not before:
        bearable *= math.sqrt(_FEWEST_IF_CLOSE)  # the other starts will race the same steps
    return sum(raced) >= _LONGEST_HEAT or _doubts([*before, pairs])[1] <= bearable
