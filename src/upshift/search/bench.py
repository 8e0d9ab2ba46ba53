"""What a tuning works with: the ways to run things, the budget, and the book of all that was tried."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from upshift.errors import UpshiftError
from upshift.knobs.binding import Binding
from upshift.knobs.change import Change
from upshift.knobs.discover import Seen
from upshift.plan import Setting
from upshift.search.trial import Run, Trial
from upshift.verify.verdict import SAME, Verdict

WORTH = 1.03
"""A setting is taken if it is this many times as fast; less is noise or not worth a changed config."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for."""

    now: Change
    bindings: Mapping[str, Binding] = field(default_factory=dict)
    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()
    fixed: Mapping[str, object] = field(default_factory=dict)
    """Knobs that get this value and no other."""
    plan: str = "conservative"
    strict: bool = False
    """Take nothing but what is the same to rounding."""
    steps_remaining: int | None = None
    budget_seconds: float = 600.0
    cores: int = 1
    threads: int | None = None
    """OMP_NUM_THREADS as the user has it; None: unset, which means all cores."""

    def wants(self, knob: str) -> bool:
        """May this knob be turned?"""
        return knob in self.fixed or (knob not in self.skip and (not self.only or knob in self.only))


@dataclass(frozen=True, kw_only=True)
class Counted:
    """A run let go for a few optimizer steps."""

    steps: int
    ended: bool
    """By itself, and well."""
    evaluations: int
    """Steps with an evaluation beside them."""
    saves: int


@dataclass(frozen=True, kw_only=True)
class Ways:
    """How things are run. For real: tuning.py; played: the tests."""

    look: Callable[[Change], tuple[Trial, Seen]]
    """The run as it is: how fast, and where its settings come from."""
    run: Run
    prove: Callable[[Change, Mapping[str, object]], Verdict]
    """Is the changed run the same training? Raises where there is no verdict."""
    pair: Callable[[Change, Mapping[str, object], int], float | None]
    """Ratio of one pair of runs, changed over as it is."""
    count: Callable[[Change, int], Counted]
    """Let it go for at most so many optimizer steps."""
    tell: Callable[[str], None]
    attach: Callable[[Bench], None] = lambda bench: None
    """Whoever wants to look at the book while it fills."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The best so far."""

    trial: Trial
    change: Change
    settings: tuple[Setting, ...] = ()

    @property
    def values(self) -> dict[str, object]:
        """Settings by knob."""
        return {s.knob: s.after for s in self.settings}


class Bench:
    """Runs, and keeps the book."""

    def __init__(self, request: Request, ways: Ways) -> None:
        self.request, self.ways, self.tell = request, ways, ways.tell
        self.trials: list[Trial] = []
        self.rejected: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self._begun = time.perf_counter()
        self._longest = 0.0
        ways.attach(self)

    @property
    def seconds(self) -> float:
        """Since the tuning began."""
        return time.perf_counter() - self._begun

    def time_for(self, trials: float = 1.0) -> bool:
        """Does another trial fit into the budget?"""
        fits = self.seconds + trials * self._longest <= self.request.budget_seconds
        if not fits and "budget" not in dict(self.rejected):
            self.reject("budget", "no time left for further trials; give more with --budget")
        return fits

    def look(self, change: Change) -> tuple[Trial, Seen]:
        """The run as it is."""
        trial, seen = self.ways.look(change)
        self._book(trial)
        return trial, seen

    def attempt(self, change: Change, settings: Mapping[str, object]) -> Trial:
        """One trial."""
        trial = self.ways.run(change, settings)
        self._book(trial)
        told = ", ".join(f"{k} {v}" for k, v in settings.items())
        speed = f"{trial.samples_per_second:.4g} samples/s" if trial.ok else f"{trial.outcome}: {trial.why}"
        self.tell(f"{told}: {speed}")
        return trial

    def _book(self, trial: Trial) -> None:
        self.trials.append(trial)
        self._longest = max(self._longest, trial.seconds)

    def proven(self, change: Change, values: Mapping[str, object], what: str) -> Verdict | None:
        """The verdict, if it lets `what` be taken; else None, and the book says why."""
        verdict = self.ask(change, values)
        if verdict is not None and self.accepts(verdict):
            return verdict
        self.reject(what, self.refusal(verdict))
        return None

    def ask(self, change: Change, values: Mapping[str, object]) -> Verdict | None:
        """Is it the same training? None: no verdict could be had."""
        self.tell("is it the same training?")
        try:
            verdict = self.ways.prove(change, values)
        except UpshiftError as error:
            self.note(f"no verdict: {error.message}")
            return None
        self.tell(f"{verdict.kind}: {verdict.because}")
        for sentence in verdict.today:
            self.note("today: " + sentence)
        return verdict

    def accepts(self, verdict: Verdict) -> bool:
        """Is it same enough for what was asked?"""
        return verdict.kind == SAME if self.request.strict else verdict.same

    def refusal(self, verdict: Verdict | None) -> str:
        """Why it may not be taken."""
        if verdict is None:
            return "no verdict could be had"
        if verdict.same:
            return f"{verdict.kind.replace('_', ' ')} is not enough with --strict: {verdict.because}"
        return f"not the same training: {verdict.because}"

    def reject(self, what: str, why: str) -> None:
        """For the table of what did not pay."""
        self.rejected.append((what, why))

    def note(self, sentence: str) -> None:
        """Something to be said once."""
        if sentence not in self.notes:
            self.notes.append(sentence)
