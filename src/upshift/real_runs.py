"""Real runs behind the functions that the search is given; finished ones come from the journal."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import Any

import psutil

from upshift import session
from upshift.errors import UpshiftError
from upshift.eventlog import ProcessLog
from upshift.inject.upshift_agent.events import CHECKPOINT
from upshift.knobs.change import Change
from upshift.knobs.counted import EVAL_EVERY, SAVE_EVERY
from upshift.knobs.discover import Seen, seen
from upshift.measure.enough import Enough
from upshift.measure.profile import training
from upshift.outcomes import failed, why_nothing
from upshift.race import copies, race
from upshift.search.bench import LOOK_SECONDS, Counted, Endured, Learned, Price, Turned, Ways
from upshift.search.confirm import Heat, Pair, heat_is_enough, speedup
from upshift.search.journal import Journal, key
from upshift.search.trial import NOTHING, OK, Trial, rate, read
from upshift.session import Outcome, Settings, Snapshot, Watcher
from upshift.verify.runs import SEED, Side
from upshift.verify.runs import Launcher as SideLauncher
from upshift.verify.trace import Trace
from upshift.verify.trace import read as read_trace
from upshift.verify.verdict import Verdict
from upshift.verify.verify import Question, verify

_SHORTEST, _LONGEST = 1.8, 20.0
"""Seconds of steps in a trial. The agent tells of them once a second, so a little less than two is two."""
_STEPS = 8.0
"""Steps it should hold, if that fits between the two."""
_PATIENCE = 120.0
"""Longer than the run as it is took: a trial that takes so long compiles, or hangs."""
_COUNTING_SECONDS = 90.0
"""After the first step: a run whose evaluations take longer keeps its secret."""
_ROOM = 0.7
"""Of the memory that is free: what two runs at once may need."""
_PRICING_SECONDS = 45.0
"""After the first step: an evaluation that takes longer is not priced."""
_ENDURING_STEPS, _ENDURING_SECONDS = 4, 20.0
"""On the longest batches: the first step has no optimizer state yet, and evaluations and saves are waited for."""


@dataclass(frozen=True, kw_only=True)
class Launching:
    """How runs are made."""

    memory_bytes: int | None = None
    """Most data of each process."""
    isolate: str = "auto"
    first_step_seconds: float = 300.0
    timeout_seconds: float = 1800.0
    look_seconds: float = 2.8
    """Of steps, of the run as it is."""
    precise: bool = False
    """Speed-ups must be known well, not just well enough to decide."""


class Runs:
    """Of one command, as it is and changed."""

    def __init__(self, now: Change, launching: Launching, tell: Callable[[str], None]) -> None:
        self.now, self.launching, self.tell = now, launching, tell
        self.journal = Journal(now.command.cwd)
        self.seconds = 6.0
        self.patience = launching.timeout_seconds
        self._sides: dict[str, Trace] = {}

    def ways(self) -> Ways:
        """For the search."""
        return Ways(
            look=self.look,
            run=self.run,
            again=partial(self.run, suffix="-again"),
            prove=self.prove,
            versus=self.versus,
            count=self.count,
            endure=self.endure,
            learn=self.learn,
            price=self.price,
            tell=self.tell,
        )

    def look(self, now: Change) -> tuple[Trial, Seen]:
        """The run as it is, a little longer, and where its settings come from."""
        name = "look-" + key(now, self.launching.memory_bytes)
        known = self.journal.get(name)
        found = self.journal.seen(name)
        if known is None or found is None:
            outcome = self._launch(now, self._enough(self.launching.look_seconds), discover=True)
            known = read(outcome, {}, outcome.seconds)
            found = seen(outcome.processes, now)
            if known.ok:
                self.journal.add(name, known, found)
            elif error := self._why_nothing(outcome):
                raise error
        if known.ok:
            self.patience = min(self.patience, known.seconds + _PATIENCE)
        if known.step_seconds:
            self.seconds = min(_LONGEST, max(_SHORTEST, _STEPS * known.step_seconds))
        return known, found

    def _why_nothing(self, outcome: Outcome) -> UpshiftError | None:
        log = training(outcome.processes)
        return why_nothing(
            outcome,
            first_step_seconds=self.launching.first_step_seconds,
            steps=len(log.steps) if log is not None else 0,
        )

    def run(self, change: Change, settings: Mapping[str, Any], suffix: str = "") -> Trial:
        """One trial, or what it showed when it was run before."""
        name = key(change, self.launching.memory_bytes) + suffix
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
        until = self._until(lambda log, since: len(log.steps) >= most or since > _COUNTING_SECONDS)
        outcome = self._launch(change, until)
        if outcome.ended_by == "interrupt":
            raise KeyboardInterrupt
        log = training(outcome.processes)
        # Quick steps are many before anyone looks, and have what they count beside them, whatever that is.
        steps = log.steps[:most] if log is not None else []
        evaluations, saves = _beside_steps(steps)
        return Counted(
            steps=len(steps),
            ended=outcome.ended_by == "program" and not failed(outcome),
            evaluations=evaluations,
            saves=saves,
        )

    def _until(self, enough: Callable[[ProcessLog, float], bool]) -> Watcher:
        """A watcher that asks, from the first step on, about the log and the seconds since."""
        first: list[float] = []

        def watch(snapshot: Snapshot) -> str | None:
            log = training(snapshot.processes)
            if log is None or not log.steps:
                return "no step" if snapshot.elapsed > self.launching.first_step_seconds else None
            first.append(snapshot.elapsed)
            return "enough" if enough(log, snapshot.elapsed - first[0]) else None

        return watch

    def _enough(self, seconds: float) -> Enough:
        return Enough(
            steps=None,
            seconds=seconds,
            first_step_seconds=self.launching.first_step_seconds,
            patience=self.patience,
        )

    def _launch(
        self,
        change: Change,
        watch: Watcher,
        *,
        discover: bool = False,
        levers: Mapping[str, Any] = MappingProxyType({}),
        learn: bool = False,
    ) -> Outcome:
        settings = replace(
            self._settings(change),
            discover=discover,
            levers={**change.levers, **levers},
            witness=learn,
            hold=False,
        )
        return session.launch(change.command, settings, watch)

    def _settings(self, change: Change) -> Settings:
        return Settings(
            isolate=self.launching.isolate,
            files=change.files,
            environment=change.environment,
            memory_bytes=self.launching.memory_bytes,
            levers=change.levers,
        )

    def versus(
        self, before: Turned, after: Turned, occasion: str, seconds: float
    ) -> Generator[Heat, None, None]:
        """Heats of so many seconds; those of an earlier call come first."""
        name = "-".join(key(change, self.launching.memory_bytes)[:10] for change, _ in (before, after))
        name = f"{name}-{occasion}"
        known = self.journal.heats(name)
        yield from known
        with closing(self._fresh(before, after, name, known, seconds)) as fresh:
            for heat in fresh:
                self.journal.add_heat(name, heat)
                known.append(heat)
                self.tell(f"side by side, start {len(known)}: {speedup(known).ratio:.2f}× so far")
                yield heat

    def _fresh(
        self, before: Turned, after: Turned, name: str, known: Sequence[Heat], seconds: float
    ) -> Generator[Heat, None, None]:
        if self._may_race(before, after):
            while heat := self._heat(before, after, seconds, known):
                yield heat
        yield from self._in_turn(before, after, name, len(known))

    def _heat(self, before: Turned, after: Turned, seconds: float, known: Sequence[Heat]) -> Heat:
        """One start of both, one asleep while the other works; nothing where one ends before they can be compared."""
        sides = [(change.command, self._settings(change)) for change, _ in (before, after)]
        trials = self._trials(before, after)
        steps = [trial.step_seconds or 0.0 for trial in trials]
        found: list[Pair] = []
        with closing(
            race(sides, steps, self.launching.first_step_seconds, precise=self.launching.precise)
        ) as pairs:
            for pair in pairs:
                found.append(pair)
                # Steps differ, which a single pair does not show: enough for a look, where starts do.
                if seconds <= LOOK_SECONDS or heat_is_enough(tuple(found), seconds, known):
                    break
        return tuple(found)

    def _trials(self, *sides: Turned) -> list[Trial]:
        """What is known of them."""
        names = [key(change, self.launching.memory_bytes) for change, _ in sides]
        found = [self.journal.get(name) or self.journal.get("look-" + name) for name in names]
        return [trial for trial in found if trial is not None]

    def _may_race(self, *sides: Turned) -> bool:
        """Is there room for both at once? And are steps all that differs?"""
        trials = self._trials(*sides)
        alone = all(t.world_size == 1 and t.device != "cuda" for t in trials)  # ports; a GPU's memory
        steps = [t.step_seconds for t in trials if t.step_seconds]
        if len(steps) < len(sides):
            return False
        needed = sum(
            copies(s, max(steps), self.launching.precise) * (t.peak_bytes or 0)
            for s, t in zip(steps, trials, strict=True)
        )
        return (
            alone
            and needed < _ROOM * psutil.virtual_memory().available
            and not (any(t.beside for t in trials) and {EVAL_EVERY.name, SAVE_EVERY.name} & set(sides[-1][1]))
        )

    def _in_turn(self, before: Turned, after: Turned, name: str, done: int) -> Generator[Heat, None, None]:
        """One whole run of each after the other, a heat of one pair; which goes first alternates."""
        for number in count(done):
            sides = {"before": before, "after": after}
            rates = {}
            for side in sides if number % 2 == 0 else reversed(sides):
                trial = self.run(*sides[side], suffix=f"-{name}-{number}")
                if not trial.ok:
                    return
                rates[side] = rate(trial, after[1])
            yield ((1 / rates["before"], 1 / rates["after"]),)

    def endure(self, change: Change) -> Endured:
        """A run on its longest batches, until it has evaluated and saved or has had the time to."""

        def enough(log: ProcessLog, since: float) -> bool:
            waited = since > _ENDURING_SECONDS or all(_beside_steps(log.steps))
            return waited and len(log.steps) >= _ENDURING_STEPS

        outcome = self._launch(change, self._until(enough), levers={"longest": True})
        trial = read(outcome, {}, outcome.seconds)
        log = training(outcome.processes)
        evaluations, saves = _beside_steps(log.steps if log is not None else [])
        return Endured(
            outcome=OK if trial.outcome == NOTHING and outcome.ended_by == "enough" else trial.outcome,
            longest=any(p.longest for p in outcome.processes),
            evaluations=evaluations,
            saves=saves,
        )

    def price(self, change: Change, wanted: frozenset[str], most: int) -> Mapping[str, Price]:
        """A run until each of these has come once, or has had the time to."""

        def enough(log: ProcessLog, since: float) -> bool:
            return since > _PRICING_SECONDS or len(log.steps) > most or wanted <= set(_prices(log))

        outcome = self._launch(change, self._until(enough))
        if outcome.ended_by == "interrupt":
            raise KeyboardInterrupt
        log = training(outcome.processes)
        found = _prices(log) if log is not None else {}
        return {what: price for what, price in found.items() if what in wanted}

    def learn(self, change: Change, steps: int) -> Learned:
        """A real training run, seeded, for so many steps."""
        name = f"{key(change, self.launching.memory_bytes)}-learn-{steps}"
        known = self.journal.learned(name)
        if known is not None:
            return known

        def watch(snapshot: Snapshot) -> str | None:
            made = min((len(p.witness) for p in snapshot.processes if p.active), default=0)
            if not made and snapshot.elapsed > self.launching.first_step_seconds:
                return "no step"
            return "enough" if made >= steps or snapshot.elapsed > self.launching.timeout_seconds else None

        outcome = self._launch(change, watch, levers={"seed": SEED}, learn=True)
        if outcome.ended_by == "interrupt":
            raise KeyboardInterrupt
        trace = read_trace(outcome)
        losses = [step.loss for step in trace.steps] if trace is not None else []
        learned = Learned(
            losses=tuple(loss for loss in losses if loss is not None)[:steps],
            validation=printed_validation(outcome.stdout + outcome.stderr),
        )
        if learned.losses:
            self.journal.add_learned(name, learned)
        return learned

    def prove(self, change: Change, values: Mapping[str, object]) -> Verdict:
        """Sides that were run before are not run again."""
        launcher = SideLauncher(
            isolate=self.launching.isolate,
            first_step_seconds=self.launching.first_step_seconds,
            timeout_seconds=self.launching.timeout_seconds,
        )

        def run(side: Side, steps: int, whole_epoch: bool) -> Trace:
            name = f"{key(side.change, None)} {side.permute} {side.double} {steps}"
            if name not in self._sides:
                self._sides[name] = launcher(side, steps, whole_epoch)
            return self._sides[name]

        question = Question(now=self.now, other=change, settings={}, bindings={}, steps=6)
        return verify(question, run).verdict


def _beside_steps(steps: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """(steps with an evaluation beside them, steps with a save)."""
    return (
        sum(bool(s["eval"] or s["evaluates"]) for s in steps),
        sum(s["phases"][CHECKPOINT] > 0 for s in steps),
    )


def _prices(log: ProcessLog) -> dict[str, Price]:
    """What stood beside steps after the first, which is not whole: an evaluation before the training is another."""
    seconds: dict[str, list[tuple[int, float]]] = {"evaluation": [], "saving": []}
    for number, step in enumerate(log.steps):
        if number and (step["eval"] or step["evaluates"]):
            seconds["evaluation"].append((number, step["eval"] or sum(step["nograd"] or ())))
        if number and step["phases"][CHECKPOINT] > 0:
            seconds["saving"].append((number, step["phases"][CHECKPOINT]))
    return {
        what: Price(seconds=sum(s for _, s in each) / len(each), steps=each[0][0])
        for what, each in seconds.items()
        if each
    }


_VALIDATION = re.compile(
    r"(?:val|valid|validation|eval|test)[\w/]*[ _/-]*loss\W{1,6}([0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?)",
    re.IGNORECASE,
)


def printed_validation(output: str) -> float | None:
    """The last validation loss in what a program printed."""
    found = _VALIDATION.findall(output)
    return float(found[-1]) if found else None
