"""Warm-up is cut where the steps settle, and not where they merely scatter."""

from __future__ import annotations

import random

from upshift.measure.steady import interval, warmup


def test_slow_first_steps_are_cut() -> None:
    assert warmup([9.0, 4.0, 2.0, *[1.0] * 20]) == 3


def test_steady_from_the_start() -> None:
    assert warmup([1.0] * 10) == 0


def test_a_single_slow_step_later_is_no_warmup() -> None:
    assert warmup([1.0] * 6 + [5.0] + [1.0] * 10) == 0


def test_noise_is_no_warmup() -> None:
    random.seed(0)
    assert warmup([random.gauss(1.0, 0.1) for _ in range(40)]) <= 2


def test_never_more_than_half() -> None:
    assert warmup([float(20 - i) for i in range(20)]) <= 10


def test_interval_holds_the_median_and_narrows() -> None:
    random.seed(1)
    few = interval([random.gauss(1.0, 0.1) for _ in range(10)])
    many = interval([random.gauss(1.0, 0.1) for _ in range(400)])
    assert few.low <= few.median <= few.high
    assert many.half_width < few.half_width


def test_interval_covers_95_percent() -> None:
    random.seed(2)
    held = 0
    for _ in range(400):
        found = interval([random.expovariate(1.0) for _ in range(30)])
        held += found.low <= 0.6931 <= found.high
    assert held >= 370
