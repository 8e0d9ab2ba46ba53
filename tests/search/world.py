"""A training that exists only as a rule: settings in a real command line and real files, speeds from a formula.

The search is given functions and knows no processes, so whole tunings are played here in milliseconds.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from upshift.command import understand
from upshift.knobs.binding import Flag
from upshift.knobs.change import Change
from upshift.knobs.discover import Seen
from upshift.plan import Plan
from upshift.search.bench import Bench, Counted, Endured, Learned, Price, Request, Turned, Ways
from upshift.search.confirm import Heat
from upshift.search.trial import CRASH, OK, OOM, Trial, rate
from upshift.search.tune import tune
from upshift.verify.verdict import Verdict

Speed = Callable[[int, int], float]
"""Samples a second, by micro-batch and accumulation."""


def overhead(fixed: float, each: float) -> Speed:
    """Every call has a fixed cost."""
    return lambda micro, accum: micro / (fixed + each * micro)


@dataclass
class World:
    """One script and its machine."""

    folder: Path
    argv: tuple[str, ...] = ("--batch_size", "2", "--accum", "8")
    read: Callable[[Change], tuple[int, int]] | None = None
    """What the script makes of its settings: (micro-batch, accumulation)."""
    speed: Speed = field(default_factory=lambda: overhead(1.0, 0.1))
    fits: int = 10**9
    """Largest micro-batch that does not run out of memory."""
    last_step: int = 10**9
    """Its training ends there."""
    longest_fits: int = 10**9
    """The same for its longest batch."""
    crashes: Callable[[int, int], bool] = lambda micro, accum: False
    data_share: float = 0.0
    workers: int | None = None
    device: str = "cpu"
    threads: int | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    """Of a step, beside waiting for data."""
    noise: float = 0.0
    same: Callable[[int, int], bool] = lambda micro, accum: True
    counts: Callable[[Change], Counted] = lambda change: Counted(steps=8, ended=False, evaluations=0, saves=0)
    """How a run goes that is let go for a few steps."""
    trial_seconds: float = 0.1
    extra: Callable[[Change], float] = lambda change: 1.0
    """Factor on the speed by anything else the change says."""
    settled: Callable[[Change], float] = lambda change: 1.0
    """Seconds until its steps are steady."""
    beside: Callable[[Change], dict[str, float]] = lambda change: {}
    """Of the run's time: evaluations and saves."""
    verdict: Callable[[Change], Verdict] | None = None
    """Instead of `same`."""
    waits: Callable[[Change], float] | None = None
    """Instead of `data_share`."""
    neighbours: tuple[str, ...] = ()
    """Other programs that take its cores."""
    prices: Callable[[Change], dict[str, Price]] = lambda change: {}
    """What evaluations and saves cost that a short trial does not see."""
    seen: Seen = field(default_factory=lambda: Seen(flags={}, files=(), sources=()))
    calls: list[tuple[int, int]] = field(default_factory=list)
    proofs: int = 0

    def __post_init__(self) -> None:
        script = self.folder / "train.py"
        if not script.exists():
            script.write_text("# reads its flags\n")
        self.now = Change(command=understand([sys.executable, "train.py", *self.argv], self.folder))
        self._random = random.Random(0)

    def settings(self, change: Change) -> tuple[int, int]:
        if self.read is not None:
            return self.read(change)
        batch, accum = Flag("--batch_size").now(change), Flag("--accum").now(change)
        return int(str(batch or 1)), int(str(accum or 1))

    def run(self, change: Change, settings: Mapping[str, object]) -> Trial:
        micro, accum = self.settings(change)
        self.calls.append((micro, accum))
        if self.crashes(micro, accum):
            return Trial(settings=settings, outcome=CRASH, why="AssertionError", seconds=self.trial_seconds)
        if micro > self.fits:
            return Trial(settings=settings, outcome=OOM, why="can't allocate memory", seconds=0.1)
        rate = self.speed(micro, accum) * self.extra(change) * (1 + self._random.uniform(-1, 1) * self.noise)
        return Trial(
            settings=settings,
            outcome=OK,
            samples_per_second=rate,
            step_seconds=micro * accum / rate,
            micro_batch=micro,
            grad_accum=accum,
            shares={"data_wait": self.waits(change) if self.waits else self.data_share, **self.shares},
            beside=self.beside(change),
            workers=self.workers,
            device=self.device,
            threads=self.threads,
            settled_seconds=self.settled(change),
            neighbours=self.neighbours,
            seconds=self.trial_seconds,
        )

    def prove(self, change: Change, values: Mapping[str, object]) -> Verdict:
        self.proofs += 1
        if self.verdict is not None:
            return self.verdict(change)
        same = self.same(*self.settings(change))
        return Verdict(kind="same" if same else "different", because="agreed" if same else "mean of means")

    def versus(
        self, before: Turned, after: Turned, occasion: str, seconds: float
    ) -> Generator[Heat, None, None]:
        while (first := self.run(*before)).ok and (second := self.run(*after)).ok:
            yield ((1 / rate(first, after[1]), 1 / rate(second, after[1])),)

    def learn(self, change: Change, steps: int) -> Learned:
        """The loss falls to a floor that a shorter limit raises, the faster the larger the learning rate."""
        limit = int(str(Flag("--max_length").now(change) or 64))
        fast = 1000 * float(str(Flag("--lr").now(change) or 1e-3))
        made = range(min(steps, self.last_step))
        return Learned(losses=tuple(10 / (1 + n * fast / 10) + 32 / limit for n in made))

    def endure(self, change: Change) -> Endured:
        micro, _ = self.settings(change)
        return Endured(outcome=OOM if micro > self.longest_fits else OK, longest=True, evaluations=1, saves=1)

    def ways(
        self,
        tell: Callable[[str], None] = lambda text: None,
        attach: Callable[[Bench], None] = lambda bench: None,
    ) -> Ways:
        return Ways(
            look=lambda change: (self.run(change, {}), self.seen),
            run=self.run,
            again=self.run,
            prove=self.prove,
            versus=self.versus,
            count=lambda change, most: self.counts(change),
            endure=self.endure,
            learn=self.learn,
            price=lambda change, wanted, most: {w: p for w, p in self.prices(change).items() if w in wanted},
            tell=tell,
            attach=attach,
        )

    def tune(self, **request: object) -> Plan:
        return tune(Request(now=self.now, **request), self.ways())  # type: ignore[arg-type]
