"""Two runs beside each other, one asleep while the other works: both speeds at the same moments of the machine.

A machine's speed drifts by more than what is asked about, from one second to the next and from one minute to the
next. Runs one after the other meet different machines; slices of a second or two, in turn, meet the same one.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from statistics import fmean

from upshift.command import Command
from upshift.eventlog import EventLog
from upshift.keeper_process import KeeperProcess, Refused
from upshift.measure.enough import Enough
from upshift.measure.iterations import iterations
from upshift.measure.profile import training
from upshift.rundir import RunDir
from upshift.session import POLL_SECONDS, Settings, Snapshot, opened, stop_signals

_WARM_SECONDS = 2.0
"""Of steps before the first slice."""
_SLICE_SECONDS, _SLICE_STEPS = 1.2, 4
"""A slice is as long as both: the agent sends its steps about once a second, and one step is lost at each pause."""


def race(
    sides: Sequence[tuple[Command, Settings]], step_seconds: float, first_step_seconds: float
) -> Generator[list[float], None, None]:
    """Yield the seconds of a step of each side, slice after slice, until a run ends or the caller has enough."""
    length = max(_SLICE_SECONDS, _SLICE_STEPS * step_seconds)
    with ExitStack() as stack, stop_signals() as stopped:
        racers = [Racer(*_open(stack, command, settings), stopped) for command, settings in sides]
        for racer in racers:
            if not racer.warm_up(first_step_seconds):
                return
        number = 0
        while True:
            # In turn who goes first, so that a drift in one direction is no advantage.
            for racer in racers if number % 2 == 0 else racers[::-1]:
                if not racer.run(length):
                    return
            if number:  # what was sent late belongs to the slice before
                found = [racer.step_seconds(number - 1) for racer in racers]
                if not all(found):
                    return
                yield [seconds for seconds in found if seconds]
            number += 1


def _open(stack: ExitStack, command: Command, settings: Settings) -> tuple[KeeperProcess, RunDir]:
    """Started, and asleep at once: it waits for its turn."""
    try:
        started = stack.enter_context(opened(command, settings, "overlay"))
    except Refused:
        started = stack.enter_context(opened(command, settings, "redirect"))
    started[0].pause()
    return started


class Racer:
    """One of the two."""

    def __init__(self, keeper: KeeperProcess, run: RunDir, stopped: list[int]) -> None:
        self._keeper, self._stopped = keeper, stopped
        self._log = EventLog(run.events)
        self._slices: list[tuple[float, float]] = []

    def warm_up(self, first_step_seconds: float) -> bool:
        """Its turn until its steps are steady; False: it is not fit to race."""
        watch = Enough(
            steps=None,
            seconds=_WARM_SECONDS,
            first_step_seconds=first_step_seconds,
            patience=2 * first_step_seconds,
        )
        self._keeper.resume()
        begun = time.perf_counter()
        reason = None
        while reason is None and self._awake():
            elapsed = time.perf_counter() - begun
            reason = watch(
                Snapshot(elapsed=elapsed, processes=self._log.poll(), running=True, experiment=None)
            )
        self._keeper.pause()
        return reason == "seconds"

    def run(self, seconds: float) -> bool:
        """One slice; False: the run has ended."""
        begun = time.perf_counter()
        self._keeper.resume()
        while time.perf_counter() - begun < seconds:
            if not self._awake():
                return False
        self._slices.append((begun, time.perf_counter()))
        self._keeper.pause()
        return True

    def _awake(self) -> bool:
        self._keeper.poll(POLL_SECONDS)
        if self._stopped:
            raise KeyboardInterrupt
        return not self._keeper.gone and self._keeper.exit_code is None

    def step_seconds(self, number: int) -> float | None:
        """Mean of the steps that lie wholly in that slice; None: there are none."""
        begun, ended = self._slices[number]
        log = training(self._log.poll())
        whole = iterations(log) if log is not None else ()
        inside = [this.seconds for last, this in pairwise(whole) if last.end >= begun and this.end <= ended]
        return fmean(inside) if inside else None
