"""GPU timing with stand-in events: no GPU has run this part, so its bookkeeping is tested alone."""

from __future__ import annotations

from upshift.inject.upshift_agent.events import BACKWARD, FORWARD, OPTIMIZER, OTHER
from upshift.inject.upshift_agent.probes import cuda


class Stream:
    """A pretend GPU: work is queued with marks, and done when the test says so."""

    def __init__(self) -> None:
        self.queued = 0.0
        self.done = 0.0

    def event(self) -> Event:
        return Event(self)


class Event:
    def __init__(self, stream: Stream) -> None:
        self.stream, self.at = stream, 0.0

    def record(self) -> None:
        self.at = self.stream.queued

    def query(self) -> bool:
        return self.at <= self.stream.done

    def elapsed_time(self, other: Event) -> float:
        return (other.at - self.at) * 1000


def test_time_between_marks_belongs_to_the_first() -> None:
    stream, sent = Stream(), []
    clock = cuda.GpuClock(stream.event, lambda step, phases: sent.append((step, phases)))
    clock.enter(FORWARD, now=1.0)
    stream.queued += 2
    clock.leave(now=1.1)
    stream.queued += 1
    clock.enter(BACKWARD, now=1.2)
    stream.queued += 3
    clock.leave(now=1.3)
    clock.settle([(0, 1.4)])
    assert sent == []  # queued, not done: nothing waits for the GPU
    clock.enter(FORWARD, now=1.5)
    clock.leave(now=1.6)
    stream.done = stream.queued
    clock.settle([])
    ((step, phases),) = sent
    assert step == 0
    assert (phases[FORWARD], phases[OTHER], phases[BACKWARD]) == (2.0, 1.0, 3.0)


def test_a_region_inside_another_is_subtracted() -> None:
    stream, sent = Stream(), []
    clock = cuda.GpuClock(stream.event, lambda step, phases: sent.append(phases))
    clock.enter(OPTIMIZER, now=1.0)
    stream.queued += 1
    clock.enter(BACKWARD, now=1.1)
    stream.queued += 5
    clock.leave(now=1.2)
    stream.queued += 1
    clock.leave(now=1.3)
    clock.enter(FORWARD, now=1.5)
    clock.leave(now=1.6)
    stream.done = stream.queued
    clock.settle([(0, 1.4)])
    ((phases),) = sent
    assert (phases[OPTIMIZER], phases[BACKWARD]) == (2.0, 5.0)


def test_events_are_reused() -> None:
    stream = Stream()
    made = []

    def new_event() -> Event:
        made.append(stream.event())
        return made[-1]

    clock = cuda.GpuClock(new_event, lambda *_: None)
    for index in range(100):
        clock.enter(FORWARD, now=index)
        stream.queued += 1
        clock.leave(now=index + 0.5)
        stream.done = stream.queued
        clock.settle([(index, index + 0.6)])
    assert len(made) < 7


def test_a_flooded_clock_drops_a_step_rather_than_block(monkeypatch) -> None:
    monkeypatch.setattr(cuda, "_MOST_PENDING", 3)
    stream, sent = Stream(), []
    clock = cuda.GpuClock(stream.event, lambda step, _: sent.append(step))
    for index in range(3):
        stream.queued += 1
        clock.enter(FORWARD, now=index / 10)
        clock.leave(now=index / 10 + 0.05)
    stream.done = stream.queued
    clock.settle([(0, 0.9)])
    for index in range(1, 3):
        clock.enter(FORWARD, now=index)
        clock.leave(now=index + 0.1)
        clock.settle([(index, index + 0.9)])
    clock.enter(FORWARD, now=4.0)
    clock.leave(now=4.1)
    clock.settle([])
    assert sent == [1, 2]
