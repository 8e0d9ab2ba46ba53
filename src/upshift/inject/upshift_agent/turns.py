"""A race: the process puts itself to sleep after every so many optimizer steps, until it is its turn again.

It knows best where a step ends: no step is cut by a pause, and none is lost. What it was asleep is not counted, nor
what it evaluated and saved: how long steps take is asked.

It sleeps at its first backward too: others start beside it. Until then a start mostly reads and imports, with one
core; first steps that compute with all cores would hold each other up.
"""

from __future__ import annotations

import os
import signal
from time import perf_counter

from .books import BACKWARD_ENDS, CLOSE_WINDOW, LEAVE, LEAVE_AS, OPEN_WINDOW, PHASE_OF, STEP
from .events import CHECKPOINT, EVAL_WINDOW


class Turns:
    """Counts steps; says how long those of each turn took."""

    def __init__(self, recorder, steps: int) -> None:
        self._recorder, self._steps = recorder, steps
        self._made = 0
        self._begun = perf_counter()
        self._beside = 0.0
        self._regions: list = []
        self._window: float | None = None
        recorder.on_active.append(self._sleep)
        recorder.on_marks.append(self._take)
        # Close looks are paid for by time that passes, and here most of it is sleep: the faster side would be looked
        # at in nearly every turn of its own.
        recorder.detail_at = float("inf")

    def stepped(self) -> None:
        """An optimizer step has ended."""
        self._made += 1
        if self._made % self._steps == 0:
            self._recorder.send()  # the marks of this turn come by
            self._sleep()

    def _sleep(self) -> None:
        """Until it is woken; says how long the turn took that ends here."""
        seconds = perf_counter() - self._begun
        self._recorder.emitter.emit("turn", seconds=max(0.0, seconds - self._beside))
        self._recorder.emitter.flush()
        self._beside = 0.0
        os.kill(os.getpid(), signal.SIGSTOP)
        self._begun = perf_counter()

    def _take(self, marks: list) -> None:
        """Add up evaluations and saves."""
        for mark in marks:
            kind, now = mark[0], mark[1]
            if kind < LEAVE or kind in PHASE_OF:
                self._regions.append((kind, now))
            elif kind in (LEAVE, LEAVE_AS, BACKWARD_ENDS) or (kind == STEP and mark[4]):
                if self._regions:
                    self._left(*self._regions.pop(), now)
            elif kind == OPEN_WINDOW:
                self._window = now
            elif kind == CLOSE_WINDOW:
                if self._window is not None and (mark[2] == EVAL_WINDOW or (mark[2] and mark[3])):
                    self._beside += now - self._window
                self._window = None

    def _left(self, phase: int, begun: float, now: float) -> None:
        inside = self._window is not None or any(outer == CHECKPOINT for outer, _ in self._regions)
        if phase == CHECKPOINT and not inside:
            self._beside += now - begun
