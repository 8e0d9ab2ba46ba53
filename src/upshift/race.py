"""Two runs beside each other, one asleep while the other works: both speeds at the same moments of the machine.

A machine's speed drifts by more than what is asked about, from one second to the next and from one minute to the
next. Runs one after the other meet different machines; slices of a second or two, in turn, meet the same one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from statistics import mean

from upshift.command import Command
from upshift.eventlog import EventLog
from upshift.keeper_process import KeeperProcess, Refused
from upshift.measure.enough import Enough
from upshift.measure.iterations import Iteration, iterations
from upshift.measure.profile import training
from upshift.rundir import RunDir
from upshift.session import POLL_SECONDS, Settings, Snapshot, opened, stop_signals

_WARM_SECONDS, _LEAST_WARM = 2.0, 0.5
"""Of steps before the first slice."""
_SLICE_SECONDS, _SLICE_STEPS, _LONGEST_SLICE = 1.5, 4, 4.0
"""Of the faster side, but no more than that of the slower one; and steps, for one is lost at each pause."""
_MISSES = 3


def race(
    sides: Sequence[tuple[Command, Settings]], step_seconds: Sequence[float], first_step_seconds: float
) -> Generator[float, None, None]:
    """Yield how many times as fast the second side is, slice by slice, until a run ends or the caller has enough.

    A slice is as many steps for both, and steps of the same number are held against each other: with the same seed
    they have the same samples, whose lengths differ from step to step. A much faster side has less time in a slice
    and would be known less well: it starts several times over.
    """
    fast, slow = min(step_seconds), max(step_seconds)
    steps = max(_SLICE_STEPS, math.ceil(min(_SLICE_SECONDS / fast, _LONGEST_SLICE / slow)))
    with ExitStack() as stack, stop_signals() as stopped:
        old, new = (
            [Racer(*_open(stack, command, settings), stopped, each) for _ in range(copies(each, slow))]
            for (command, settings), each in zip(sides, step_seconds, strict=True)
        )
        racers = [*old, *new]
        if not _begun(racers, first_step_seconds):
            return
        for racer in racers:
            # About as many steps for all: the slower ones would have to catch up.
            seconds = max(_LEAST_WARM, _WARM_SECONDS * racer.step_seconds / slow)
            if not racer.warm_up(seconds, first_step_seconds):
                return
        number = misses = 0
        while misses < _MISSES:
            ahead = max(racer.made() for racer in racers)
            # In turn who goes first, so that a drift in one direction is no advantage.
            for racer in racers if number % 2 == 0 else racers[::-1]:
                if not racer.run(ahead + steps - racer.made()):
                    return
            if number:  # what was sent late belongs to the slice before
                before, after = _clean(old), _clean(new)
                common = racers[0].inside(number - 1).keys() & after.keys()
                if common:
                    yield sum(before[n] for n in common) / sum(after[n] for n in common)
                misses = 0 if common else misses + 1
            number += 1


def copies(step_seconds: float, slowest: float) -> int:
    """How often to start this side: half-way, as starting costs too, to as much time for it as for the slowest."""
    return round(math.sqrt(slowest / step_seconds))


def _clean(side: Sequence[Racer]) -> dict[int, float]:
    """Seconds by number, of the steps that no pause has cut."""
    found: dict[int, list[float]] = {}
    for racer in side:
        for n, seconds in racer.clean().items():
            found.setdefault(n, []).append(seconds)
    return {n: mean(seconds) for n, seconds in found.items()}


def _begun(racers: Sequence[Racer], seconds: float) -> bool:
    """All start at once, for that is not compared, and each sleeps after its first step; False: one has none."""
    given_up = time.perf_counter() + seconds * len(racers)
    starting = list(racers)
    while starting and time.perf_counter() < given_up:
        for racer in starting:
            if not racer.awake(POLL_SECONDS / len(starting)):
                return False
        for racer in [racer for racer in starting if racer.made()]:
            racer.sleep()
            starting.remove(racer)
    return not starting


def _open(stack: ExitStack, command: Command, settings: Settings) -> tuple[KeeperProcess, RunDir]:
    try:
        kind = "overlay" if settings.isolate == "auto" else settings.isolate
        return stack.enter_context(opened(command, settings, kind))
    except Refused:
        return stack.enter_context(opened(command, settings, "redirect"))


class Racer:
    """One run of them."""

    def __init__(self, keeper: KeeperProcess, run: RunDir, stopped: list[int], step_seconds: float) -> None:
        self._keeper, self._stopped, self.step_seconds = keeper, stopped, step_seconds
        self._log = EventLog(run.events)
        self._slices: list[tuple[float, float]] = []

    def warm_up(self, seconds: float, first_step_seconds: float) -> bool:
        """Its turn until its steps are steady; False: it is not fit to race."""
        watch = Enough(
            steps=None,
            seconds=seconds,
            first_step_seconds=first_step_seconds,
            patience=2 * first_step_seconds,
        )
        self._keeper.resume()
        begun = time.perf_counter()
        reason = None
        while reason is None and self.awake():
            elapsed = time.perf_counter() - begun
            reason = watch(
                Snapshot(elapsed=elapsed, processes=self._log.poll(), running=True, experiment=None)
            )
        self._keeper.pause()
        return reason == "seconds"

    def run(self, steps: int) -> bool:
        """One slice of about so many steps; False: the run has ended."""
        begun = time.perf_counter()
        self._keeper.resume()
        while (left := begun + steps * self.step_seconds - time.perf_counter()) > 0:
            if not self.awake(left):
                return False
        self._slices.append((begun, time.perf_counter()))
        self._keeper.pause()
        return True

    def awake(self, seconds: float = POLL_SECONDS) -> bool:
        """Listen for so long; False: it has ended."""
        self._keeper.poll(min(seconds, POLL_SECONDS))
        if self._stopped:
            raise KeyboardInterrupt
        return not self._keeper.gone and self._keeper.exit_code is None

    def sleep(self) -> None:
        """Until its turn."""
        self._keeper.pause()

    def _whole(self) -> tuple[Iteration, ...]:
        log = training(self._log.poll())
        return iterations(log) if log is not None else ()

    def made(self) -> int:
        """Steps so far, those since it last sent some as its pace lets expect."""
        whole = self._whole()
        if not whole:
            return 0
        since = sum(max(0.0, ended - max(begun, whole[-1].end)) for begun, ended in self._slices)
        return len(whole) + int(since / self.step_seconds)

    def clean(self) -> dict[int, float]:
        """Seconds by number, of the steps that no pause has cut."""
        return {
            n: seconds for slice_ in range(len(self._slices)) for n, seconds in self.inside(slice_).items()
        }

    def inside(self, number: int) -> dict[int, float]:
        """The same, of the steps wholly in that slice."""
        begun, ended = self._slices[number]
        return {
            n: this.seconds
            for n, (last, this) in enumerate(pairwise(self._whole()), 1)
            if begun <= last.end and this.end <= ended
        }
