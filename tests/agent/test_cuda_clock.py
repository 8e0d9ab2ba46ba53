"""GPU timing with stand-in events: no GPU has run this part, so its bookkeeping is tested alone."""

from __future__ import annotations

from upshift.inject.upshift_agent.events import BACKWARD, FORWARD, OTHER
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
    clock.mark(FORWARD)
    stream.queued += 2
    clock.mark(BACKWARD)
    stream.queued += 3
    clock.mark(OTHER)
    clock.cut()
    assert sent == []  # queued, not done: nothing waits for the GPU
    clock.mark(FORWARD)
    stream.done = stream.queued
    clock.drain()
    ((step, phases),) = sent
    assert step == 0
    assert (phases[FORWARD], phases[BACKWARD]) == (2.0, 3.0)


def test_events_are_reused() -> None:
    stream = Stream()
    made = []

    def new_event() -> Event:
        made.append(stream.event())
        return made[-1]

    clock = cuda.GpuClock(new_event, lambda *_: None)
    for _ in range(100):
        clock.mark(FORWARD)
        stream.queued += 1
        stream.done = stream.queued
        clock.cut()
    assert len(made) < 5


def test_a_flooded_clock_drops_a_step_rather_than_block(monkeypatch) -> None:
    monkeypatch.setattr(cuda, "_MOST_PENDING", 3)
    stream, sent = Stream(), []
    clock = cuda.GpuClock(stream.event, lambda step, _: sent.append(step))
    for _ in range(5):
        stream.queued += 1
        clock.mark(FORWARD)
    clock.cut()
    stream.done = stream.queued
    clock.drain()
    for _ in range(2):
        clock.mark(FORWARD)
        clock.cut()
    clock.drain()
    assert 0 not in sent
