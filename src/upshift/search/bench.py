"""What a tuning works with: the ways to run things, the budget, and the book of all that was tried."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

from upshift.errors import Interrupted, UpshiftError
from upshift.knobs.binding import Binding
from upshift.knobs.change import Change
from upshift.knobs.discover import Seen
from upshift.plan import Beside, Setting
from upshift.search.confirm import Heat, second_look
from upshift.search.trial import Run, Trial, rate
from upshift.verify.verdict import SAME, Verdict

CONSERVATIVE, BALANCED, AGGRESSIVE = "conservative", "balanced", "aggressive"
WORTH = 1.03
"""A setting is taken if it is this many times as fast; less is noise or not worth a changed config."""


SURE = 1.3
"""What is so much faster needs no second look before it is proven; the whole plan is confirmed in pairs anyway."""
_CONFIRMING, _MOST_CONFIRMING = 0.3, 0.6
"""Of the budget: kept for holding the best against the run as it is; more where starting takes long."""
_STARTS, _RACING_SECONDS = 3, 6.0
"""Of both, at the most where the gain is clear; and of each."""
_BOTH_STARTS = 1.2
"""Of both at once, in starts of one alone."""
LOOK_SECONDS = 1.0
"""Of racing, each start of a second look."""
_ATTEMPT = 3.0
"""What a knob costs to try, prove and confirm, in trials."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for."""

    now: Change
    bindings: Mapping[str, Binding] = field(default_factory=dict)
    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()
    fixed: Mapping[str, object] = field(default_factory=dict)
    """Knobs that get this value and no other."""
    plan: str = CONSERVATIVE
    strict: bool = False
    """Take nothing but what is the same to rounding."""
    steps_remaining: int | None = None
    budget_seconds: float = 600.0
    precision: float | None = None
    """How well the speed-up must be known; None: well enough to decide."""
    memory_limited: bool = False
    """Each process may have only so much memory."""
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


Turned = tuple[Change, Mapping[str, object]]
"""A change and the settings by knob that make it up."""


@dataclass(frozen=True, kw_only=True)
class Endured:
    """A run on its longest batches, with an evaluation and a save if they came."""

    outcome: str
    """As of a trial."""
    longest: bool
    """Its longest samples were known and put into the batches."""
    evaluations: int = 0
    saves: int = 0


@dataclass(frozen=True, kw_only=True)
class Price:
    """Of an evaluation or a save, from a run in which they come early."""

    seconds: float
    """Each."""
    steps: int
    """Optimizer steps before the first one."""


@dataclass(frozen=True, kw_only=True)
class Learned:
    """A real, seeded run: how its loss fell."""

    losses: tuple[float, ...]
    """By optimizer step."""
    validation: float | None = None
    """The last one that the program printed."""


@dataclass(frozen=True, kw_only=True)
class Ways:
    """How things are run. For real: real_runs.py; played: the tests."""

    look: Callable[[Change], tuple[Trial, Seen]]
    """The run as it is: how fast, and where its settings come from."""
    run: Run
    again: Run
    """The same on another start."""
    prove: Callable[[Change, Mapping[str, object]], Verdict]
    """Is the changed run the same training? Raises where there is no verdict."""
    versus: Callable[[Turned, Turned, str, float], Generator[Heat, None, None]]
    """The two beside each other, started anew for each heat of so many seconds, for as long as is asked for and the
    runs go well; the word tells occasions apart."""
    count: Callable[[Change, int], Counted]
    """Let it go for at most so many optimizer steps."""
    learn: Callable[[Change, int], Learned]
    """Train for so many optimizer steps."""
    endure: Callable[[Change], Endured]
    """Let it go on its longest batches until it has evaluated and saved."""
    price: Callable[[Change, frozenset[str], int], Mapping[str, Price]]
    """Let it go until it has done these beside its steps (`evaluation`, `saving`), for so many steps at the most:
    those that came."""
    tell: Callable[[str], None]
    attach: Callable[[Bench], None] = lambda bench: None
    """Whoever wants to look at the book while it fills."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The best so far."""

    trial: Trial
    change: Change
    settings: tuple[Setting, ...] = ()
    luck: float | None = None
    """How many times as fast its trial was as other starts say it is; None: it was started once."""

    @property
    def values(self) -> dict[str, object]:
        """Settings by knob."""
        return {s.knob: s.after for s in self.settings}

    def rate(self, values: Mapping[str, object]) -> float:
        """Samples a second, of the steps or of the run, whichever those settings are about."""
        return rate(self.trial, values) / (self.luck or 1.0)


class Bench:
    """Runs, and keeps the book."""

    def __init__(self, request: Request, ways: Ways) -> None:
        self.request, self.ways, self.tell = request, ways, ways.tell
        self.trials: list[Trial] = []
        self.rejected: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.beside_steps: list[Beside] = []
        self._begun = time.perf_counter()
        self._longest = 0.0
        ways.attach(self)

    @property
    def seconds(self) -> float:
        """Since the tuning began."""
        return time.perf_counter() - self._begun

    @property
    def limited(self) -> bool:
        """Can a setting run out of memory late? On a machine's own memory the system swaps first."""
        return self.request.memory_limited or any(t.device == "cuda" for t in self.trials)

    def worth_a_trial(self, best: Trial, share: float) -> bool:
        """Would `share` of the steps that remain pay for trying it? Always, where their number was not given."""
        steps = self.request.steps_remaining
        if steps is None or best.step_seconds is None:
            return True
        return share * steps * best.step_seconds > _ATTEMPT * self._longest

    def time_for(self, trials: float = 1.0, longer: float = 0.0) -> bool:
        """Does another trial, so much longer, fit into the budget, with what confirming the best takes in the end?"""
        left = self.request.budget_seconds - self._for_confirming() - self.seconds
        fits = trials * (self._longest + longer) <= left
        if not fits and "budget" not in dict(self.rejected):
            self.reject("budget", "no time left for further trials; give more with --budget")
        return fits

    def _for_confirming(self) -> float:
        budget = self.request.budget_seconds
        start = (self.trials[0].settled_seconds or 0.0) if self.trials else 0.0
        needed = _STARTS * (_BOTH_STARTS * start + _RACING_SECONDS)
        return min(max(needed, _CONFIRMING * budget), _MOST_CONFIRMING * budget)

    def look(self, change: Change) -> tuple[Trial, Seen]:
        """The run as it is."""
        trial, seen = self.ways.look(change)
        self._book(trial)
        return trial, seen

    def undisturbed(self, baseline: Trial) -> Trial:
        """The run as it is, measured once more if other programs took cores: all else is held against it."""
        if not baseline.neighbours or not self.time_for():
            return baseline
        self.tell(f"{', '.join(baseline.neighbours)} took cores meanwhile: as it is, once more")
        again = self.ways.again(self.request.now, {})
        self._book(again)
        return max(baseline, again, key=lambda trial: trial.samples_per_second or 0.0)

    def attempt(self, change: Change, settings: Mapping[str, object]) -> Trial:
        """One trial."""
        trial = self.ways.run(change, settings)
        self._book(trial)
        told = ", ".join(f"{k} {v}" for k, v in settings.items())
        speed = f"{trial.samples_per_second:.4g} samples/s" if trial.ok else f"{trial.outcome}: {trial.why}"
        self.tell(f"{told}: {speed}")
        return trial

    def on_another_start(self, best: Standing) -> Standing:
        """The best, its speed known from two starts: a lucky one would make all that is held against it look slow."""
        if best.luck is not None or not self.time_for():
            return best
        trial = self.ways.again(best.change, best.values)
        self._book(trial)
        if not trial.ok or not best.trial.samples_per_second:
            return best
        assert trial.samples_per_second is not None
        ratio = best.trial.samples_per_second / trial.samples_per_second
        self.tell(f"the best so far on another start: {trial.samples_per_second:.4g} samples/s")
        return replace(best, luck=(1 + ratio) / 2)  # by the mean of their times

    def tried(self, settings: Mapping[str, object]) -> bool:
        """Is it known how fast these are?"""
        return any(trial.settings == settings for trial in self.trials)

    def _book(self, trial: Trial) -> None:
        self.trials.append(trial)
        self._longest = max(self._longest, trial.seconds)

    def beside(self, before: Turned, after: Turned, least: float, gain: float | None = None) -> float | None:
        """How many times as fast, on a second look: the machine's speed may have changed between two trials.

        Well enough to tell whether it is `least`, given the `gain` that trials have shown.
        """
        with closing(self.ways.versus(before, after, "again", LOOK_SECONDS)) as heats:
            return second_look(heats, least, gain)

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
        except Interrupted:
            raise
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
        """For the table of what did not pay; what was refused before on other terms is there once."""
        self.rejected = [(other, reason) for other, reason in self.rejected if other != what]
        self.rejected.append((what, why))

    def forgive(self, knob: str, value: object = "") -> None:
        """It pays after all, together with another: this value, or any."""
        refused = f"{knob} → {value}"
        self.rejected = [(what, why) for what, why in self.rejected if not what.startswith(refused)]

    def note(self, sentence: str) -> None:
        """Something to be said once."""
        if sentence not in self.notes:
            self.notes.append(sentence)
