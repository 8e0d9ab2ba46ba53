"""Two runs beside each other, one asleep while the other works: both speeds at the same moments of the machine.

A machine's speed drifts by more than what is asked about, from one second to the next and from one minute to the
next. Runs one after the other meet different machines; turns of a second or less meet the same one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from statistics import fmean

from upshift.command import Command
from upshift.eventlog import EventLog
from upshift.keeper_process import KeeperProcess, Refused
from upshift.rundir import RunDir
from upshift.session import POLL_SECONDS, Settings, opened, stop_signals

_TURN_SECONDS, _PRECISE_TURN_SECONDS = 0.3, 1.5
"""Of the faster side: waking up costs caches, some per cent of a short turn and less of a long one."""
_LONG_TURN_SECONDS, _SHORTEST_TURN_SECONDS = 1.2, 0.1
"""A slower side's turn is that long at the most, unless the faster one's became too short."""
_WARM_SECONDS = 0.5
"""Of the slower side's turns after the start, at the least: they are not compared."""
_PAIR_SECONDS = 0.5
"""Of all sides together, at the least: as many seconds in more pairs tell more of their spread."""
_LONG_PAIR_SECONDS = 1.2
"""One turn of each that takes so long is a pair by itself: few long pairs would tell little of how steps differ."""
_UNSEEN = 0.8
"""Of a turn: passes before it is looked for more often. Looking takes a core, and where all compute that is felt."""
_LATE, _LATE_SECONDS = 10.0, 120.0
"""A turn that takes so many times what was expected, and so long, comes no more; it may hold an evaluation."""


def race(
    sides: Sequence[tuple[Command, Settings]],
    step_seconds: Sequence[float],
    first_step_seconds: float,
    *,
    precise: bool = False,
) -> Generator[tuple[float, float], None, None]:
    """Yield seconds of both for the same steps, again and again, until a run ends or the caller has enough.

    A turn is as many steps for both: with the same seed they have the same samples, whose lengths differ from step
    to step. A much faster side has less time that way and is known less well: if `precise`, it starts several times
    over. All start at once: until its first backward, where each sleeps, a start mostly imports and reads with one
    core.
    """
    slow = max(step_seconds)
    steps = turn_steps(min(step_seconds), slow, precise)
    with ExitStack() as stack, stop_signals() as stopped:
        old: list[Racer] = []
        new: list[Racer] = []
        for racers, (command, settings), each in zip((old, new), sides, step_seconds, strict=True):
            for _ in range(copies(each, slow, precise)):
                run = _open(stack, command, replace(settings, turns=steps))
                racers.append(Racer(*run, stopped, each * steps))
        if not _begun([*old, *new], first_step_seconds):
            return
        warm = math.ceil(_WARM_SECONDS / (slow * steps))
        number, before, after = 0, 0.0, 0.0
        while True:
            number += 1
            took = {}
            # In turn who goes first, so that a drift in one direction is no advantage.
            for racer in [*old, *new] if number % 2 else [*new, *old]:
                seconds = racer.turn()
                if seconds is None:
                    return
                took[racer] = seconds
            if number <= warm:
                continue
            before += fmean(took[racer] for racer in old)
            after += fmean(took[racer] for racer in new)
            # Who has just slept longer is slower, which is felt in short turns: a pair has both orders in it.
            raced = len(old) * before + len(new) * after
            balanced = (number - warm) % 2 == 0
            if raced >= _LONG_PAIR_SECONDS or (balanced and raced >= _PAIR_SECONDS):
                yield before, after
                before = after = 0.0


def turn_steps(fast: float, slow: float, precise: bool) -> int:
    """Steps of a turn, given what one takes the faster and the slower side."""
    if precise:
        return math.ceil(_PRECISE_TURN_SECONDS / fast)
    bearable = max(_SHORTEST_TURN_SECONDS, _LONG_TURN_SECONDS * fast / slow)
    return math.ceil(min(_TURN_SECONDS, bearable) / fast)


def copies(step_seconds: float, slowest: float, precise: bool) -> int:
    """How often to start this side: half-way, as starting costs too, to as much time for it as for the slowest."""
    return round(math.sqrt(slowest / step_seconds)) if precise else 1


def _begun(racers: Sequence[Racer], seconds: float) -> bool:
    """Have all of them come to their first backward, where each sleeps? False: one has none."""
    given_up = time.perf_counter() + seconds * len(racers)
    starting = list(racers)
    while starting and time.perf_counter() < given_up:
        for racer in list(starting):
            if not racer.listen(POLL_SECONDS / len(starting)):
                return False
            if racer.turns():
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

    def __init__(self, keeper: KeeperProcess, run: RunDir, stopped: list[int], turn_seconds: float) -> None:
        self._keeper, self._stopped, self._turn_seconds = keeper, stopped, turn_seconds
        self._log = EventLog(run.events)

    def turn(self) -> float | None:
        """Let it make its steps: how many seconds they took; None: it has ended, or does not get on."""
        made = len(self.turns())
        begun = time.perf_counter()
        given_up = begun + max(_LATE_SECONDS, _LATE * self._turn_seconds)
        due = begun + _UNSEEN * self._turn_seconds
        self._keeper.resume()
        while len(turns := self.turns()) == made:
            now = time.perf_counter()
            if not self.listen(max(due - now, self._turn_seconds / 50)) or now > given_up:
                return None
        self.sleep()
        self._turn_seconds = turns[-1]
        return turns[-1]

    def sleep(self) -> None:
        """The rest of it too: the training process sleeps already, by itself."""
        self._keeper.pause()

    def listen(self, seconds: float) -> bool:
        """For so long; False: it has ended."""
        self._keeper.poll(max(0.002, min(seconds, POLL_SECONDS)))
        if self._stopped:
            raise KeyboardInterrupt
        return not self._keeper.gone and self._keeper.exit_code is None

    def turns(self) -> list[float]:
        """Seconds of each so far."""
        return next((log.turns for log in self._log.poll() if log.turns), [])
