"""A race: the process puts itself to sleep after every so many optimizer steps, until it is its turn again.

It knows best where a step ends: no step is cut by a pause, and none is lost. What it was asleep is not counted.
"""

from __future__ import annotations

import os
import signal
from time import perf_counter


class Turns:
    """Counts steps; says how long each turn took."""

    def __init__(self, emitter, steps: int) -> None:
        self._emitter, self._steps = emitter, steps
        self._made = 0
        self._begun = perf_counter()

    def stepped(self) -> None:
        """An optimizer step has ended."""
        self._made += 1
        if self._made % self._steps:
            return
        self._emitter.emit("turn", seconds=perf_counter() - self._begun)
        self._emitter.flush()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._begun = perf_counter()
