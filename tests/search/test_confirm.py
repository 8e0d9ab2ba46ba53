"""When enough pairs have run, and what is claimed of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

import pytest

from upshift.search.confirm import Speedup, confirm


class Pairs:
    """The same ratios over and over, counted."""

    def __init__(self, *ratios: float) -> None:
        self.ratios, self.asked = ratios, 0

    def __iter__(self) -> Iterator[float]:
        for ratio in cycle(self.ratios):
            self.asked += 1
            yield ratio


def confirmed(pairs: Pairs, **options: float) -> Speedup:
    found = confirm(iter(pairs), **options)
    assert found is not None and found.pairs == pairs.asked
    return found


def test_a_large_gain_is_not_measured_to_the_last_per_cent() -> None:
    found = confirmed(Pairs(6.0, 7.0))
    assert found.pairs == 5
    assert found.claimed and found.high / found.low > 1.1


def test_a_small_gain_waits_for_a_second_start() -> None:
    assert confirmed(Pairs(1.10, 1.11)).pairs == 6


def test_noise_ends_after_ten_and_claims_nothing() -> None:
    found = confirmed(Pairs(0.7, 1.5))
    assert found.pairs == 10
    assert not found.claimed


def test_what_is_slower_is_given_up() -> None:
    assert confirmed(Pairs(0.80, 0.81)).pairs == 6


def test_precision_goes_on_until_it_is_reached() -> None:
    found = confirmed(Pairs(4.0, 5.0), precision=0.03)
    assert found.pairs > 20
    assert found.high / found.low == pytest.approx(1.06, abs=0.005)


def test_precision_ends_with_the_budget() -> None:
    pairs = Pairs(4.0, 5.0)
    found = confirm(iter(pairs), precision=0.001, in_time=lambda: pairs.asked < 12)
    assert found is not None and found.pairs == 12


def test_too_few_pairs_say_nothing() -> None:
    assert confirm(iter([2.0] * 4)) is None


@pytest.mark.parametrize(("pairs", "t"), [(2, 12.71), (11, 2.228), (31, 2.042)])
def test_the_interval_is_students(pairs: int, t: float) -> None:
    from math import log, sqrt
    from statistics import stdev

    from upshift.search.confirm import speedup

    ratios = [2.0 + n % 2 for n in range(pairs)]
    found = speedup(ratios)
    half = t * stdev(map(log, ratios)) / sqrt(pairs)
    assert log(found.high / found.ratio) == pytest.approx(half, rel=0.01)
