"""`upshift tune`: the search with real runs, a journal, and something to look at."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from upshift import config, session
from upshift.errors import Interrupted
from upshift.inject.upshift_agent.events import CHECKPOINT
from upshift.knobs.binding import Binding
from upshift.knobs.change import Change
from upshift.knobs.discover import Seen, seen
from upshift.measure.enough import Enough
from upshift.measure.profile import training
from upshift.outcomes import failed
from upshift.plan import Plan
from upshift.search.bench import Bench, Counted, Request, Ways
from upshift.search.journal import Journal, key
from upshift.search.trial import Trial, read
from upshift.search.tune import tune as search
from upshift.session import Outcome, Settings, Snapshot, Watcher
from upshift.verify.runs import Launcher as SideLauncher
from upshift.verify.runs import Side
from upshift.verify.trace import Trace
from upshift.verify.verdict import Verdict
from upshift.verify.verify import Question, verify

_SHORTEST, _LONGEST = 3.0, 20.0
"""Seconds of steps in a trial."""
_STEPS = 8.0
"""Steps it should hold, if that fits between the two."""
_COUNTING_SECONDS = 90.0
"""After the first step: a run whose evaluations take longer keeps its secret."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to tune, from the command line."""

    bindings: Mapping[str, Binding] = field(default_factory=dict)
    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()
    fixed: Mapping[str, object] = field(default_factory=dict)
    plan: str = "conservative"
    strict: bool = False
    steps_remaining: int | None = None
    budget_seconds: float = 600.0
    memory_bytes: int | None = None
    isolate: str = "auto"
    first_step_seconds: float = 300.0
    timeout_seconds: float = 1800.0
    look_seconds: float = 8.0
    """Of steps, of the run as it is."""


class View(Protocol):
    """Something to look at meanwhile."""

    def attach(self, bench: Bench) -> None:
        """Called once, with the book that fills."""

    def tell(self, text: str) -> None:
        """What is going on now."""


def tune(now: Change, options: Options, view: View) -> Plan:
    """Find the fastest way to run the same training."""
    runs = Runs(now, options, view.tell)
    request = Request(
        now=now,
        bindings=options.bindings,
        only=options.only,
        skip=options.skip,
        fixed=options.fixed,
        plan=options.plan,
        strict=options.strict,
        steps_remaining=options.steps_remaining,
        budget_seconds=options.budget_seconds,
        threads=config.threads(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
    )
    try:
        return search(request, replace(runs.ways(), attach=view.attach))
    except KeyboardInterrupt:
        raise Interrupted(
            f"stopped; the trials so far are in {runs.journal.path}, and the same command goes on from there"
        ) from None


def look(now: Change, options: Options) -> tuple[Trial, Seen]:
    """The run as it is, and where its settings come from."""
    return Runs(now, options, lambda _: None).look(now)


class Runs:
    """Real runs behind the functions the search is given; finished ones come from the journal."""

    def __init__(self, now: Change, options: Options, tell: Callable[[str], None]) -> None:
        self.now, self.options, self.tell = now, options, tell
        self.journal = Journal(now.command.cwd)
        self.seconds = 6.0
        self._sides: dict[str, Trace] = {}

    def ways(self) -> Ways:
        """For the search."""
        return Ways(
            look=self.look,
            run=self.run,
            prove=self.prove,
            pair=self.pair,
            count=self.count,
            tell=self.tell,
        )

    def look(self, now: Change) -> tuple[Trial, Seen]:
        """The run as it is, a little longer, and where its settings come from."""
        name = "look-" + key(now, self.options.memory_bytes)
        known = self.journal.get(name)
        found = self.journal.seen(name)
        if known is None or found is None:
            outcome = self._launch(now, self._enough(self.options.look_seconds), discover=True)
            known = read(outcome, {}, outcome.seconds)
            found = seen(outcome.processes, now)
            if known.ok:
                self.journal.add(name, known, found)
        if known.step_seconds:
            self.seconds = min(_LONGEST, max(_SHORTEST, _STEPS * known.step_seconds))
        return known, found

    def run(self, change: Change, settings: Mapping[str, Any], suffix: str = "") -> Trial:
        """One trial, or what it showed when it was run before."""
        name = key(change, self.options.memory_bytes) + suffix
        known = self.journal.get(name)
        if known is not None:
            return known
        begun = time.perf_counter()
        outcome = self._launch(change, self._enough(self.seconds))
        trial = read(outcome, settings, time.perf_counter() - begun)
        self.journal.add(name, trial)
        return trial

    def count(self, change: Change, most: int) -> Counted:
        """A run let go until it ends or has made `most` optimizer steps."""
        first: list[float] = []

        def watch(snapshot: Snapshot) -> str | None:
            log = training(snapshot.processes)
            if log is None or not log.steps:
                return "no step" if snapshot.elapsed > self.options.first_step_seconds else None
            first.append(snapshot.elapsed)
            late = snapshot.elapsed - first[0] > _COUNTING_SECONDS
            return "enough" if len(log.steps) >= most or late else None

        outcome = self._launch(change, watch)
        if outcome.ended_by == "interrupt":
            raise KeyboardInterrupt
        log = training(outcome.processes)
        steps = log.steps if log is not None else []
        return Counted(
            steps=len(steps),
            ended=outcome.ended_by == "program" and not failed(outcome),
            evaluations=sum(bool(s["eval"] or s["evaluates"]) for s in steps),
            saves=sum(s["phases"][CHECKPOINT] > 0 for s in steps),
        )

    def _enough(self, seconds: float) -> Enough:
        return Enough(
            steps=None,
            seconds=seconds,
            first_step_seconds=self.options.first_step_seconds,
            patience=self.options.timeout_seconds,
        )

    def _launch(self, change: Change, watch: Watcher, *, discover: bool = False) -> Outcome:
        settings = Settings(
            isolate=self.options.isolate,
            files=change.files,
            environment=change.environment,
            memory_bytes=self.options.memory_bytes,
            discover=discover,
        )
        return session.launch(change.command, settings, watch)

    def pair(self, change: Change, settings: Mapping[str, object], number: int) -> float | None:
        """One run of each beside the other; which goes first alternates."""
        sides: list[tuple[Change, Mapping[str, object]]] = [(self.now, {}), (change, settings)]
        rates = {}
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            trial = self.run(*sides[which], suffix=f"-pair{number}")
            if not trial.ok:
                return None
            rates[which] = trial.samples_per_second or 0.0
        ratio = rates[1] / rates[0]
        self.tell(f"pair {number + 1}: {rates[0]:.4g} → {rates[1]:.4g} samples/s, {ratio:.2f}×")
        return ratio

    def prove(self, change: Change, values: Mapping[str, object]) -> Verdict:
        """Sides that were run before are not run again."""
        launcher = SideLauncher(
            isolate=self.options.isolate,
            first_step_seconds=self.options.first_step_seconds,
            timeout_seconds=self.options.timeout_seconds,
        )

        def run(side: Side, steps: int, whole_epoch: bool) -> Trace:
            name = f"{key(side.change, None)} {side.permute} {side.double} {steps}"
            if name not in self._sides:
                self._sides[name] = launcher(side, steps, whole_epoch)
            return self._sides[name]

        question = Question(now=self.now, other=change, settings={}, bindings={}, steps=6)
        return verify(question, run).verdict
