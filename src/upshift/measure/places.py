"""Sampled stacks → which line of the user's code a phase is spent in."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from upshift.eventlog import Event
from upshift.inject.upshift_agent.events import NO_WINDOW, OTHER, PHASES

_FEWEST = 3
"""Fewer samples than this say nothing."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A line of the user's code and its share of the samples of one phase."""

    file: str
    line: int
    function: str
    share: float

    def __str__(self) -> str:
        name = "" if self.function == "<module>" else f" {self.function}"
        return f"{self.file}:{self.line}{name}"


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where each phase of the training steps was seen."""

    by_phase: dict[str, tuple[Place, ...]]
    waiting_share: float
    """Share of "other" spent waiting on a queue, pool or pipe: data that another thread or process makes."""
    waiting: tuple[Place, ...]


def places(samples: Sequence[Event], since: float, cwd: Path) -> Places:
    """Count the samples taken after monotonic time `since`, outside evaluations."""
    counts: dict[int, Counter[tuple[str, int, str]]] = defaultdict(Counter)
    waiting: Counter[tuple[str, int, str]] = Counter()
    for event in samples:
        if event["mono"] <= since:
            continue
        for phase, file, line, function, waits, window, number in event["counts"]:
            if window != NO_WINDOW:
                continue
            if phase == OTHER and waits:
                waiting[file, line, function] += number
            else:
                counts[phase][file, line, function] += number
    waited = sum(waiting.values())
    others = sum(counts[OTHER].values())
    return Places(
        by_phase={PHASES[p]: _ranked(c, cwd) for p, c in counts.items()},
        waiting_share=waited / (waited + others) if waited >= _FEWEST else 0.0,
        waiting=_ranked(waiting, cwd),
    )


def _ranked(counter: Counter[tuple[str, int, str]], cwd: Path) -> tuple[Place, ...]:
    total = sum(counter.values())
    if total < _FEWEST:
        return ()
    return tuple(
        Place(file=_short(file, cwd), line=line, function=function, share=number / total)
        for (file, line, function), number in counter.most_common(5)
    )


def _short(file: str, cwd: Path) -> str:
    """Relative to where the user works, if it lies below."""
    path = Path(file)
    try:
        return str(path.relative_to(cwd)) if path.is_absolute() else file
    except ValueError:
        return file
