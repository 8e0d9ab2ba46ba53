"""When both have been started often enough, and what is claimed of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from math import log, sqrt
from statistics import stdev

import pytest

from upshift.search.confirm import (
    Heat,
    Speedup,
    confirm,
    heat_is_enough,
    second_look,
    speedup,
)


class Heats:
    """As it is against changed, started over and over, so many times as fast in each start; counted."""

    def __init__(self, *ratios: float) -> None:
        self.ratios, self.asked = ratios, 0

    def __iter__(self) -> Iterator[Heat]:
        for ratio in cycle(self.ratios):
            self.asked += 1
            yield ((ratio, 1.0),)


def confirmed(heats: Heats, precision: float | None = None) -> Speedup:
    found = confirm(iter(heats), precision)
    assert found is not None and found.starts == heats.asked
    return found


def test_a_large_gain_is_not_measured_to_the_last_per_cent() -> None:
    found = confirmed(Heats(6.0, 7.0))
    assert found.starts <= 4
    assert found.claimed and found.high / found.low > 1.1


def test_a_small_gain_is_measured_more_closely() -> None:
    found = confirmed(Heats(1.06, 1.10))
    assert 3 < found.starts <= 8
    assert found.claimed


def test_noise_ends_after_eight_and_claims_nothing() -> None:
    found = confirmed(Heats(0.7, 1.5))
    assert found.starts == 8
    assert not found.claimed


def test_two_starts_that_differ_are_not_the_end_even_where_time_is_up() -> None:
    found = confirm(iter(Heats(2.0, 3.0, 2.5)), in_time=lambda: False)
    assert found is not None and found.starts == 3 and found.claimed
    found = confirm(iter(Heats(2.5, 2.6)), in_time=lambda: False)
    assert found is not None and found.starts == 2 and found.claimed


def test_what_is_slower_is_given_up() -> None:
    assert confirmed(Heats(0.80, 0.85)).starts < 8


def test_precision_goes_on_until_it_is_reached() -> None:
    found = confirmed(Heats(4.0, 5.0), precision=0.03)
    assert found.starts > 20
    assert found.high / found.low == pytest.approx(1.06, abs=0.005)


def test_precision_ends_with_the_budget() -> None:
    heats = Heats(4.0, 5.0)
    found = confirm(iter(heats), precision=0.001, in_time=lambda: heats.asked < 12)
    assert found is not None and found.starts == 12


def test_too_few_starts_say_nothing() -> None:
    assert confirm(iter([((1.9, 1.0), (1.9, 1.0))] * 2)) is None
    assert confirm(iter([((9.0, 1.0), (9.0, 1.0))])) is None


def test_twice_as_fast_is_not_the_luck_of_a_start() -> None:
    assert confirmed(Heats(6.0, 6.1)).starts == 2
    assert confirmed(Heats(1.9, 1.91)).starts == 3


def test_steps_differ_and_a_training_is_made_of_all_of_them() -> None:
    """Ten times as fast on short texts, twice on long ones, which take most of the time."""
    assert speedup([((1.0, 0.1), (9.0, 4.5))] * 3).ratio == pytest.approx(10.0 / 4.6)


@pytest.mark.parametrize(("starts", "t"), [(2, 12.71), (11, 2.228), (31, 2.042)])
def test_the_interval_is_students(starts: int, t: float) -> None:
    ratios = [2.0 + 0.02 * (n % 2) for n in range(starts)]
    found = speedup([((ratio, 1.0),) for ratio in ratios])
    half = t * stdev(map(log, ratios)) / sqrt(starts)
    assert log(found.high / found.ratio) == pytest.approx(half, rel=0.02)


def test_pairs_of_one_start_know_nothing_of_the_next() -> None:
    """A hundred that agree within a start, whose heap lies well, are one word for it."""
    lucky, unlucky = ((1.3, 1.0),) * 100, ((1.0, 1.0),) * 100
    assert not speedup([lucky]).claimed
    found = speedup([lucky, unlucky, lucky])
    assert found.ratio == pytest.approx(1.2)
    assert not found.claimed


def test_starts_that_agree_know_nothing_of_further_steps() -> None:
    """The same short steps gain much and the same long ones little, in every start."""
    found = speedup([((1.0, 0.2), (9.0, 6.0), (1.0, 0.2))] * 5)
    assert found.high / found.low > 2


def test_two_starts_that_agree_are_enough_for_a_second_look() -> None:
    for ratios, asked in ((1.2, 1.1), 2), ((0.9, 1.0), 2), ((1.2, 0.9, 1.3), 3):
        heats = Heats(*ratios)
        found = second_look(iter(heats), least=1.03)
        assert heats.asked == asked
        assert found == pytest.approx(sum(ratios[:asked]) / asked)
    assert second_look(iter(()), least=1.03) is None


def test_a_second_look_goes_by_what_the_trial_has_shown() -> None:
    for gain, ratios, asked in (
        (1.2, (1.15,), 1),
        (1.05, (1.04,), 1),
        (1.05, (1.01,), 1),
        (1.2, (0.9, 1.0), 2),
        (1.2, (0.9, 1.2, 1.2), 3),
    ):
        heats = Heats(*ratios)
        found = second_look(iter(heats), least=1.03, gain=gain)
        assert heats.asked == asked
        assert found == pytest.approx(sum(ratios) / asked)


def test_a_start_is_gone_on_with_while_it_is_steps_that_differ() -> None:
    assert not heat_is_enough(((2.0, 1.0),), 1.0), "one pair shows nothing of what steps differ in"
    assert not heat_is_enough(((2.0, 1.0), (2.0, 1.0)), 9.0), "asked for longer"
    assert heat_is_enough(((2.0, 1.0), (2.0, 1.0)), 3.0)
    unlike = ((2.0, 0.8), (2.0, 1.6), (2.0, 0.7), (2.0, 1.6), (2.0, 0.9))
    assert not any(heat_is_enough(unlike[:n], 3.0) for n in range(1, 4))
    assert heat_is_enough(unlike, 3.0), "but not for ever"
    assert heat_is_enough(((2.0, 1.0), (2.0, 1.1)), 3.0, [((2.0, 1.1), (2.0, 1.0))]), "others had them too"
    little = ((2.0, 1.0), (2.0, 1.02))
    assert heat_is_enough(little, 3.0), "the others will have them too"
    assert not heat_is_enough(little, 3.0, [little])


def test_noise_is_not_doubted_twice() -> None:
    """Starts of which none is better, and steps of which none is: what is left is the noise of single pairs."""
    noisy = [((2.0, 1.0), (2.0, 1.2), (2.0, 1.1)), ((2.0, 1.2), (2.0, 1.1), (2.0, 1.0))]
    noisy.append(((2.0, 1.1), (2.0, 1.0), (2.0, 1.2)))
    found, steps = speedup(noisy), speedup([noisy[0]] * 3)
    assert log(found.high / found.ratio) == pytest.approx(
        2.36 * stdev([1.0, 1.1, 1.2] * 3) / 1.1 / 3, rel=0.05
    )
    assert steps.high > found.high, "three starts that agree in which steps gain have seen three steps"


def test_a_large_gain_may_be_in_doubt() -> None:
    assert heat_is_enough(((2.00, 0.2), (2.04, 0.2)), 3.0)
    assert not heat_is_enough(((2.00, 1.8), (2.04, 1.8)), 3.0)
