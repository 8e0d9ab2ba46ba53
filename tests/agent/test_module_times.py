"""Calls of modules, played back."""

from __future__ import annotations

import pytest

from upshift.inject.upshift_agent.module_times import (
    BACKWARD_BEGINS,
    END,
    ENTER,
    LEAVE,
    LEFT,
    REACHED,
    ModuleTimes,
)

FORWARD, OWN, BACKWARD = 5, 6, 7


@pytest.fixture
def times() -> ModuleTimes:
    times = ModuleTimes()
    root = times.add("Net", "Net", None, None, 10)
    times.add("Net.a", "Linear", None, root, 4)
    times.add("Net.b", "Linear", None, root, 6)
    return times


def test_time_inside_is_not_the_callers_own(times: ModuleTimes) -> None:
    marks = [
        (ENTER, 0.0, 0),
        (ENTER, 1.0, 1),
        (LEAVE, 3.0, 1),
        (ENTER, 4.0, 2),
        (LEAVE, 8.0, 2),
        (LEAVE, 9.0, 0),
    ]
    times.play(marks, 0.0, hooked=False)
    assert [row[FORWARD] for row in times.table] == [9.0, 2.0, 4.0]
    assert [row[OWN] for row in times.table] == [3.0, 2.0, 4.0]
    assert times.forward == 9.0


def test_what_looking_costs_is_not_the_callers_own(times: ModuleTimes) -> None:
    marks = [(ENTER, 0.0, 0), (ENTER, 1.0, 1), (LEAVE, 3.0, 1), (LEAVE, 4.0, 0)]
    times.play(marks, 0.5, hooked=False)
    assert times.table[0][OWN] == 1.5


def test_backward_goes_to_the_module_the_gradient_is_in(times: ModuleTimes) -> None:
    marks = [
        (BACKWARD_BEGINS, 10.0, 0),
        (REACHED, 11.0, 2),  # the loss came first; b's output is also the model's
        (REACHED, 11.00001, 0),
        (LEFT, 14.0, 2),  # back in the model's own code
        (REACHED, 15.0, 1),
        (END, 17.0, 0),
    ]
    times.play(marks, 0.0, hooked=True)
    assert [row[BACKWARD] for row in times.table] == pytest.approx([1.0, 2.0, 3.0], abs=1e-4)
    assert times.backward == 7.0
    assert times.backwards == 1


def test_calls_inside_the_backward_are_recomputation(times: ModuleTimes) -> None:
    marks = [
        (ENTER, 0.0, 0),
        (LEAVE, 1.0, 0),
        (BACKWARD_BEGINS, 2.0, 0),
        (ENTER, 3.0, 1),
        (LEAVE, 5.0, 1),
        (END, 6.0, 0),
    ]
    times.play(marks, 0.0, hooked=False)
    assert times.recomputed == 2.0
    assert times.table[1][FORWARD] == 0.0
