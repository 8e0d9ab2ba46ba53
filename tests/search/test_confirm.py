"""When enough pairs have run, and what is claimed of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from math import log, sqrt
from statistics import stdev

import pytest

from upshift.search.confirm import Pair, Speedup, confirm, speedup


class Pairs:
    """As it is against changed, so many times as fast, over and over; counted."""

    def __init__(self, *ratios: float) -> None:
        self.ratios, self.asked = ratios, 0

    def __iter__(self) -> Iterator[Pair]:
        for ratio in cycle(self.ratios):
            self.asked += 1
            yield ratio, 1.0


def confirmed(pairs: Pairs, precision: float | None = None) -> Speedup:
    found = confirm(iter(pairs), precision)
    assert found is not None and found.pairs == pairs.asked
    return found


def test_a_large_gain_is_not_measured_to_the_last_per_cent() -> None:
    found = confirmed(Pairs(6.0, 7.0))
    assert found.pairs == 5
    assert found.claimed and found.high / found.low > 1.1


def test_a_small_gain_is_measured_more_closely() -> None:
    found = confirmed(Pairs(1.06, 1.14))
    assert 5 < found.pairs <= 10
    assert found.claimed


def test_noise_ends_after_ten_and_claims_nothing() -> None:
    found = confirmed(Pairs(0.7, 1.5))
    assert found.pairs == 10
    assert not found.claimed


def test_what_is_slower_is_given_up() -> None:
    assert confirmed(Pairs(0.80, 0.90)).pairs < 10


def test_precision_goes_on_until_it_is_reached() -> None:
    found = confirmed(Pairs(4.0, 5.0), precision=0.03)
    assert found.pairs > 20
    assert found.high / found.low == pytest.approx(1.06, abs=0.005)


def test_precision_ends_with_the_budget() -> None:
    pairs = Pairs(4.0, 5.0)
    found = confirm(iter(pairs), precision=0.001, in_time=lambda: pairs.asked < 12)
    assert found is not None and found.pairs == 12


def test_too_few_pairs_say_nothing() -> None:
    assert confirm(iter([(2.0, 1.0)] * 4)) is None


def test_steps_differ_and_a_training_is_made_of_all_of_them() -> None:
    """Ten times as fast on short texts, twice on long ones, which take most of the time."""
    assert speedup([(1.0, 0.1), (9.0, 4.5)] * 3).ratio == pytest.approx(10.0 / 4.6)


@pytest.mark.parametrize(("pairs", "t"), [(2, 12.71), (11, 2.228), (31, 2.042)])
def test_the_interval_is_students(pairs: int, t: float) -> None:
    ratios = [2.0 + 0.02 * (n % 2) for n in range(pairs)]
    found = speedup([(ratio, 1.0) for ratio in ratios])
    half = t * stdev(map(log, ratios)) / sqrt(pairs)
    assert log(found.high / found.ratio) == pytest.approx(half, rel=0.02)
