"""The plan: settings with a verdict each. Without a verdict that calls it the same, there is no setting in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from upshift.errors import UpshiftError
from upshift.knobs.binding import Binding
from upshift.knobs.change import Change
from upshift.search.choice import Choice
from upshift.search.confirm import Speedup
from upshift.search.trial import Trial
from upshift.verify.verdict import Verdict


class Unproven(UpshiftError):
    """Somebody tried to plan a setting that was not shown to be the same training."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One knob, turned."""

    knob: str
    before: object
    after: object
    effect: str
    gain: float | None
    """Samples a second, after over before, when it was turned."""
    reason: str
    binding: Binding
    verdict: Verdict

    def __post_init__(self) -> None:
        if not self.verdict.same:
            raise Unproven(f"{self.knob} → {self.after} is not the same training: {self.verdict.because}")


@dataclass(frozen=True, kw_only=True)
class Length:
    """Optimizer steps the speed-up is for."""

    steps: int
    told_by: Binding | None
    """The training's own limit; None: the user, who has said how many remain."""


@dataclass(frozen=True, kw_only=True)
class Beside:
    """Evaluations or saves, too seldom for a short trial to see."""

    what: str
    seconds: float
    """Each."""
    every: float
    """Optimizer steps, as it is."""
    every_after: float
    """The same with the plan."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to run from now on."""

    now: Change
    change: Change
    settings: tuple[Setting, ...]
    baseline: Trial
    best: Trial
    speedup: Speedup | None
    verdict: Verdict | None
    trials: tuple[Trial, ...]
    rejected: tuple[tuple[str, str], ...]
    """(what was tried or could be, why it is not in the plan)."""
    tuning_seconds: float
    notes: tuple[str, ...] = ()
    length: Length | None = None
    beside: tuple[Beside, ...] = ()
    quality: tuple[Choice, ...] = ()
    """Of the aggressive plan: what another training would bring and cost."""

    @property
    def values(self) -> Mapping[str, object]:
        """Settings by knob."""
        return {s.knob: s.after for s in self.settings}

    @property
    def whole_seconds(self) -> tuple[float, float] | None:
        """Of the training as it is and with the plan, with what is known to be beside its steps; None: not known."""
        if self.length is None or self._per_step is None:
            return None
        before, after = self._per_step
        return self.length.steps * before, self.length.steps * after

    @property
    def run_ratio(self) -> float | None:
        """How many times as fast with evaluations and saves; None where nothing is known of them."""
        if not self.beside or self._per_step is None:
            return None
        before, after = self._per_step
        return before / after

    @property
    def _per_step(self) -> tuple[float, float] | None:
        if self.speedup is None or not self.baseline.step_seconds:
            return None
        before = self.baseline.step_seconds
        return (
            before + sum(b.seconds / b.every for b in self.beside),
            before / self.speedup.ratio + sum(b.seconds / b.every_after for b in self.beside),
        )
