"""GPU time by phase from pooled CUDA events: recorded in the stream, read when done, never waited for.

Written from the documentation and tested with stand-in events; no GPU has run this yet.
"""

from __future__ import annotations

from collections import deque

from ..events import H2D, PHASES
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
        if recorder.active and not recorder.stack and self.device.type == "cpu":
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
        self._phase = 0
        self._step = 0
        self._sums: dict = {}
        self._incomplete: set = set()

    def mark(self, phase: int) -> None:
        """The stream's work from here on belongs to `phase`."""
        if len(self._pending) >= _MOST_PENDING:
            self._incomplete.add(self._step)  # dropped, and said so: an incomplete step is not sent
            return
        event = self._pool.pop() if self._pool else self._new_event()
        event.record()
        self._pending.append((event, phase, self._step))

    def cut(self) -> None:
        """A step ends here. Finished steps are sent by `drain`, a little later."""
        self._step += 1
        self.drain()

    def drain(self) -> None:
        """Read the marks the GPU has passed, oldest first; stop at the first it has not."""
        pending = self._pending
        while len(pending) >= 2 and pending[1][0].query():
            event, phase, step = pending.popleft()
            sums = self._sums.setdefault(step, [0.0] * len(PHASES))
            sums[phase] += event.elapsed_time(pending[0][0]) / 1000.0
            self._pool.append(event)
            if pending[0][2] > step:
                phases = self._sums.pop(step)
                if step in self._incomplete:
                    self._incomplete.discard(step)
                else:
                    self._send(step, phases)
