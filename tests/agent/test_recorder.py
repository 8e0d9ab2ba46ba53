"""The books of the agent: exclusive time, gaps named by what ends them, steps in a row as one group."""

from __future__ import annotations

from pathlib import Path

import pytest

from upshift.eventlog import EventLog
from upshift.inject.upshift_agent import recorder as module
from upshift.inject.upshift_agent.books import SAMPLE
from upshift.inject.upshift_agent.emitter import Emitter
from upshift.inject.upshift_agent.events import (
    DATA,
    EVAL_WINDOW,
    FORWARD,
    LOSS,
    MICRO_FIELDS,
    OPTIMIZER,
    OTHER,
    PHASES,
)
from upshift.inject.upshift_agent.turns import Turns


class Clock:
    """Time that moves only when told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now

    def tick(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "perf_counter", clock)
    return clock


@pytest.fixture
def recorder(clock: Clock, tmp_path: Path) -> module.Recorder:
    recorder = module.Recorder(Emitter(str(tmp_path)))
    recorder.activate()
    return recorder


def test_who_races_is_not_looked_at_closely(recorder: module.Recorder) -> None:
    """A close look is paid for by time that passes, and a racer is asleep for most of it."""
    Turns(recorder, 5)
    assert recorder.detail_at == float("inf")


def steps(recorder: module.Recorder, tmp_path: Path) -> list[dict]:
    recorder.finish("test")
    (log,) = EventLog(tmp_path).poll()
    return log.steps


def spend(recorder: module.Recorder, clock: Clock, phase: int, seconds: float) -> None:
    recorder.enter(phase)
    clock.tick(seconds)
    recorder.leave()


def forward(
    recorder: module.Recorder, clock: Clock, seconds: float, *, grad: bool = True, training: bool = True
):
    recorder.model_begins(grad, training)
    clock.tick(seconds)
    recorder.leave()


def backward(recorder: module.Recorder, clock: Clock, seconds: float, *, retain: bool = False):
    recorder.backward_begins(retain)
    clock.tick(seconds)
    recorder.backward_ended()


def step(recorder: module.Recorder, clock: Clock, seconds: float, name: str = "SGD#0"):
    spend(recorder, clock, OPTIMIZER, seconds)
    recorder.step_ended(name)


def seconds(event: dict) -> dict[str, float]:
    return {name: s for name, s in zip(PHASES, event["phases"], strict=True) if s}


def test_gaps_are_named_by_what_ends_them(recorder, clock, tmp_path) -> None:
    clock.tick(1)  # before anything: other
    spend(recorder, clock, DATA, 2)
    forward(recorder, clock, 3)
    clock.tick(4)  # between two calls of the model: forward glue
    forward(recorder, clock, 5)
    clock.tick(6)  # between forward and backward: the loss
    backward(recorder, clock, 7)
    clock.tick(8)  # after it: other
    step(recorder, clock, 9)
    (event,) = steps(recorder, tmp_path)
    assert seconds(event) == {
        "other": 9,
        "data_wait": 2,
        "forward": 12,
        "loss": 6,
        "backward": 7,
        "optimizer": 9,
    }


def test_nested_regions_are_subtracted(recorder, clock, tmp_path) -> None:
    recorder.enter(OPTIMIZER)  # a closure: forward and backward run inside the step
    recorder.step_depth = 1
    clock.tick(1)
    forward(recorder, clock, 2)
    backward(recorder, clock, 3)
    clock.tick(4)
    recorder.leave()
    recorder.step_ended("LBFGS#0")
    (event,) = steps(recorder, tmp_path)
    assert seconds(event) == {"optimizer": 5, "forward": 2, "backward": 3}
    assert event["micro"][0][MICRO_FIELDS.index("inside")] is True


def test_phases_sum_to_the_time_between_steps(recorder, clock, tmp_path) -> None:
    for _ in range(3):
        spend(recorder, clock, DATA, 0.5)
        forward(recorder, clock, 0.25)
        backward(recorder, clock, 0.25)
        clock.tick(0.125)
        step(recorder, clock, 0.5)
        clock.tick(0.375)
    events = steps(recorder, tmp_path)
    for before, after in zip(events, events[1:], strict=False):
        assert sum(after["phases"]) == pytest.approx(after["end"] - before["end"])


def test_optimizers_in_a_row_are_one_group(recorder, clock, tmp_path) -> None:
    for _ in range(2):
        forward(recorder, clock, 1)
        backward(recorder, clock, 1)
        step(recorder, clock, 1, "A#0")
        step(recorder, clock, 1, "B#1")
    assert [e["optimizers"] for e in steps(recorder, tmp_path)] == [["A#0", "B#1"]] * 2


def test_the_same_optimizer_again_is_another_step(recorder, clock, tmp_path) -> None:
    for _ in range(3):
        step(recorder, clock, 1)
    assert len(steps(recorder, tmp_path)) == 3


def test_two_backwards_on_one_graph_are_one_micro_step(recorder, clock, tmp_path) -> None:
    forward(recorder, clock, 1)
    backward(recorder, clock, 1, retain=True)
    backward(recorder, clock, 1)
    step(recorder, clock, 1)
    (event,) = steps(recorder, tmp_path)
    assert len(event["micro"]) == 1


def test_evaluation_is_moved_out_of_the_step(recorder, clock, tmp_path) -> None:
    step(recorder, clock, 1)
    recorder.open_window(EVAL_WINDOW)
    for _ in range(4):
        spend(recorder, clock, DATA, 1)
        forward(recorder, clock, 1, grad=False, training=False)
        clock.tick(1)
    recorder.close_window()
    forward(recorder, clock, 1)
    backward(recorder, clock, 1)
    step(recorder, clock, 1)
    event = steps(recorder, tmp_path)[1]
    assert event["eval"] == 12
    assert sum(event["phases"]) == 3


def test_training_in_eval_mode_is_no_evaluation(recorder, clock, tmp_path) -> None:
    recorder.open_window(EVAL_WINDOW)
    forward(recorder, clock, 2, training=False)
    backward(recorder, clock, 1)
    step(recorder, clock, 1)
    (event,) = steps(recorder, tmp_path)
    assert event["eval"] == 0
    assert event["phases"][FORWARD] == 2
    assert len(event["micro"]) == 1


def test_switching_without_a_forward_moves_nothing(recorder, clock, tmp_path) -> None:
    """A frozen backbone put to eval() in every step."""
    recorder.open_window(EVAL_WINDOW)
    forward(recorder, clock, 2, training=True)
    backward(recorder, clock, 1)
    step(recorder, clock, 1)
    (event,) = steps(recorder, tmp_path)
    assert event["eval"] == 0


def test_a_criterion_is_loss_not_forward(recorder, clock, tmp_path) -> None:
    forward(recorder, clock, 1)
    recorder.enter(FORWARD)
    clock.tick(2)
    recorder.leave_as(LOSS)
    backward(recorder, clock, 1)
    step(recorder, clock, 1)
    (event,) = steps(recorder, tmp_path)
    assert event["phases"][LOSS] == 2


def test_samples_of_a_gap_go_to_the_phase_the_gap_turns_out_to_be(recorder, clock, tmp_path) -> None:
    forward(recorder, clock, 1)
    recorder.mark((SAMPLE, 0.0, ("train.py", 7, "loss_of", False, 0)))
    backward(recorder, clock, 1)
    recorder.mark((SAMPLE, 0.0, ("train.py", 9, "main", False, 0)))
    step(recorder, clock, 1)
    recorder.finish("test")
    (log,) = EventLog(tmp_path).poll()
    counts = [tuple(count) for event in log.samples for count in event["counts"]]
    assert sorted(counts) == [
        (OTHER, "train.py", 9, "main", False, 0, 1),
        (LOSS, "train.py", 7, "loss_of", False, 0, 1),
    ]


def test_a_forked_child_starts_empty_and_dormant(recorder, clock) -> None:
    forward(recorder, clock, 1)
    recorder.after_fork()
    assert not recorder.thread
    assert recorder.closed
    assert not recorder.tape
