"""`upshift tune`: the search with real runs, a journal, and something to look at."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from upshift import config, session
from upshift.errors import Interrupted
from upshift.knobs.binding import Binding
from upshift.knobs.change import Change
from upshift.knobs.discover import Seen, seen
from upshift.measure.enough import Enough
from upshift.plan import Plan
from upshift.search.journal import Journal, key
from upshift.search.trial import Launcher, Trial, read
from upshift.search.tune import Request, Tuner
from upshift.session import Outcome, Settings, Snapshot
from upshift.verify.runs import Launcher as SideLauncher
from upshift.verify.runs import Side
from upshift.verify.trace import Trace
from upshift.verify.verdict import Verdict
from upshift.verify.verify import Question, verify

_SHORTEST, _LONGEST = 3.0, 20.0
"""Seconds of steps in a trial."""
_STEPS = 8.0
"""Steps it should hold, if that fits between the two."""
_LOOK = 8.0
"""Seconds of steps of the run as it is."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to tune, from the command line."""

    bindings: Mapping[str, Binding] = field(default_factory=dict)
    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()
    plan: str = "conservative"
    budget_seconds: float = 600.0
    memory_bytes: int | None = None
    isolate: str = "auto"
    first_step_seconds: float = 300.0
    timeout_seconds: float = 1800.0


def tune(now: Change, options: Options, tell: Callable[[str], None]) -> Plan:
    """Find the fastest way to run the same training."""
    runs = _Runs(now, options, tell)
    request = Request(
        now=now,
        bindings=options.bindings,
        only=options.only,
        skip=options.skip,
        plan=options.plan,
        budget_seconds=options.budget_seconds,
        threads=config.threads(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
    )
    try:
        return Tuner(request, runs.look, runs.run, runs.prove, runs.pair, tell).tune()
    except KeyboardInterrupt:
        raise Interrupted(
            f"stopped; the trials so far are in {runs.journal.path}, and the same command goes on from there"
        ) from None


def look(now: Change, options: Options) -> tuple[Trial, Seen]:
    """The run as it is, and where its settings come from."""
    return _Runs(now, options, lambda _: None).look(now)


class _Runs:
    """Real runs behind the functions the search is given; finished ones come from the journal."""

    def __init__(self, now: Change, options: Options, tell: Callable[[str], None]) -> None:
        self.now, self.options, self.tell = now, options, tell
        self.journal = Journal(now.command.cwd)
        self.seconds = 6.0
        self._sides: dict[str, Trace] = {}

    def look(self, now: Change) -> tuple[Trial, Seen]:
        name = "look-" + key(now, self.options.memory_bytes)
        known = self.journal.get(name)
        found = self.journal.seen(name)
        if known is None or found is None:
            outcome = self._launch(now, discover=True)
            known = read(outcome, {}, outcome.seconds)
            found = seen(outcome.processes, now)
            if known.ok:
                self.journal.add(name, known, found)
        if known.step_seconds:
            self.seconds = min(_LONGEST, max(_SHORTEST, _STEPS * known.step_seconds))
        return known, found

    def _launch(self, change: Change, *, discover: bool) -> Outcome:
        enough = Enough(
            steps=None,
            seconds=_LOOK if discover else self.seconds,
            first_step_seconds=self.options.first_step_seconds,
            patience=self.options.timeout_seconds,
        )

        def watch(snapshot: Snapshot) -> str | None:
            return enough(snapshot)

        settings = Settings(
            isolate=self.options.isolate,
            files=change.files,
            environment=change.environment,
            memory_bytes=self.options.memory_bytes,
            discover=discover,
        )
        return session.launch(change.command, settings, watch)

    def run(self, change: Change, settings: Mapping[str, Any], suffix: str = "") -> Trial:
        name = key(change, self.options.memory_bytes) + suffix
        known = self.journal.get(name)
        if known is not None:
            return known
        trial = Launcher(
            seconds=self.seconds,
            memory_bytes=self.options.memory_bytes,
            isolate=self.options.isolate,
            timeout_seconds=self.options.timeout_seconds,
            first_step_seconds=self.options.first_step_seconds,
        )(change, settings)
        self.journal.add(name, trial)
        return trial

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
