"""What a family of findings returns, and what it is given."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from upshift.diagnose.names import Names
from upshift.eventlog import Event, ProcessLog
from upshift.measure.iterations import Iteration
from upshift.measure.modules import Modules
from upshift.measure.profile import Profile

LEAST = 0.04
"""A saving below this share of the run is not worth a line."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One root cause."""

    kind: str
    title: str
    """The cause, in a few words."""
    evidence: tuple[str, ...]
    """Numbers and lines."""
    saves: float | None
    """Share of the run's time that mending it would save, as well as it is known; None: not known."""
    bound: float | None
    """What it can save at most (Amdahl); None: no bound is known."""
    measured: bool
    """`saves` was tried in the run itself, not only worked out."""
    fix: str
    where: str | None = None
    """file:line, or the setting's own name."""
    overlaps: tuple[str, ...] = ()
    """Kinds that mend the same time: their savings do not add."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything one profiled run has shown."""

    profile: Profile
    log: ProcessLog
    """The process that speaks for the run."""
    ranks: tuple[ProcessLog, ...]
    used: tuple[Iteration, ...]
    """Iterations after warm-up."""
    fetched: tuple[Event, ...]
    """Batches made for the training, by whichever process made them."""
    names: Names
    output: str
    """What the program printed."""
    cwd: Path

    @property
    def modules(self) -> Modules | None:
        """Time by module."""
        return self.profile.modules

    @property
    def noise(self) -> float:
        """Least share that can be told from noise here."""
        return max(LEAST, self.profile.step.half_width)

    @cached_property
    def step_part(self) -> float:
        """Share of the run's time that is steps, the rest being evaluation and saving."""
        run = self.profile.run
        if not run.watched_seconds:
            return 1.0
        return max(0.0, 1.0 - (run.evaluation_seconds + run.checkpoint_seconds) / run.watched_seconds)

    def phase(self, *names: str) -> float:
        """Share of a step spent in these phases."""
        return sum(p.share or 0.0 for p in self.profile.phases if p.name in names)

    def of_run(self, share_of_step: float) -> float:
        """A share of a step as a share of the run."""
        return share_of_step * self.step_part

    def result(self, experiment: str) -> Any:
        """What an experiment returned, or None."""
        event = self.log.experiments.get(experiment)
        return event["result"] if event else None

    def near(self, place: str | None) -> str | None:
        """file:line, relative to where the command was given."""
        if place is None:
            return None
        path, _, line = place.rpartition(":")
        with contextlib.suppress(ValueError):
            path = str(Path(path).relative_to(self.cwd))
        return f"{path}:{line}"

    @cached_property
    def loader(self) -> Event | None:
        """The DataLoader the training takes its batches from."""
        made = [e for e in self.log.loaders if not e["evaluation"]]
        fed = sum(m.fetches for i in self.used for m in i.micro)
        return made[-1] if made and fed else None


Family = Callable[[Evidence], Iterator[Finding]]


def percent(share: float) -> str:
    """0.126 → 13 %."""
    return f"{share * 100:.0f} %" if share >= 0.0995 else f"{share * 100:.1f} %"


def milliseconds(seconds: float) -> str:
    """0.0123 → 12 ms."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"
