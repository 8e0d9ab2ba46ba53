"""GPU time by phase from pooled CUDA events: recorded in the stream, read when done, never waited for.

Written from the documentation and tested with stand-in events; no GPU has run this yet.
"""

from __future__ import annotations

from collections import deque

from ..events import H2D, OTHER, PHASES
from .wrap import timed_function

_MOST_PENDING = 20000


def install(torch, recorder) -> None:
    """Arm the clock when training turns out to run on CUDA; time host-to-device copies only there."""
    if not torch.cuda.is_available():
        return

    def arm() -> None:
        if torch.cuda.is_initialized():
            recorder.gpu = GpuClock(
                lambda: torch.cuda.Event(enable_timing=True),
                lambda step, phases: recorder.emitter.emit("gpu", index=step, phases=phases),
            )

    recorder.on_active.append(arm)
    for name in ("to", "cuda"):
        original = getattr(torch.Tensor, name)
        setattr(torch.Tensor, name, _copying(torch, recorder, original))


def _copying(torch, recorder, original):
    """Tensor.to / .cuda, timed as host-to-device when the tensor starts on the host."""
    timed = timed_function(torch, recorder, original, H2D)

    def method(self, *args, **kwargs):
        clock = recorder.gpu
        if clock is not None and not clock.inside() and self.device.type == "cpu":
            return timed(self, *args, **kwargs)
        return original(self, *args, **kwargs)

    method.__name__ = original.__name__
    method.__doc__ = original.__doc__
    return method


class GpuClock:
    """A stream of marks; the time between two neighbours belongs to the phase of the first."""

    def __init__(self, new_event, send) -> None:
        self._new_event = new_event
        self._send = send
        self._pool: list = []
        self._pending: deque = deque()
        self._stack: list = []
        self._ends: deque = deque()
        self._sums = [0.0] * len(PHASES)
        self._flooded: list = []

    def enter(self, phase: int, now: float) -> None:
        """A region begins on the host at `now`: what is queued from here on is its work."""
        self._stack.append(phase)
        self._mark(phase, now)

    def leave(self, now: float) -> None:
        """The current region ends."""
        if self._stack:
            self._stack.pop()
        self._mark(self._stack[-1] if self._stack else OTHER, now)

    def inside(self) -> bool:
        """Is a region open?"""
        return bool(self._stack)

    def _mark(self, phase: int, now: float) -> None:
        if len(self._pending) >= _MOST_PENDING:
            self._flooded.append(now)  # dropped, and said so: an incomplete step is not sent
            return
        event = self._pool.pop() if self._pool else self._new_event()
        event.record()
        self._pending.append((event, phase, now))

    def event(self):
        """An event for somebody else, recorded now."""
        event = self._new_event()
        event.record()
        return event

    def seconds(self, marks: list) -> list:
        """Marks whose times are events, as seconds since the first."""
        first = marks[0][1]
        return [(kind, first.elapsed_time(event) / 1000.0, index) for kind, event, index in marks]

    def settle(self, ends: list) -> None:
        """Steps as (index, host time of their end), and a look at what the GPU has done since."""
        self._ends.extend(ends)
        self._drain()

    def _drain(self) -> None:
        """Read the marks the GPU has passed, oldest first; stop at the first it has not."""
        pending = self._pending
        while len(pending) >= 2 and pending[1][0].query():
            event, phase, now = pending.popleft()
            while self._ends and now >= self._ends[0][1]:
                self._finish(*self._ends.popleft())
            self._sums[phase] += event.elapsed_time(pending[0][0]) / 1000.0
            self._pool.append(event)

    def _finish(self, index: int, end: float) -> None:
        sums, self._sums = self._sums, [0.0] * len(PHASES)
        flooded = [at for at in self._flooded if at < end]
        if flooded:
            self._flooded = self._flooded[len(flooded) :]
        else:
            self._send(index, sums)
