"""When a profile has seen enough: a steady state with a narrow interval, or what the user asked for."""

from __future__ import annotations

from dataclasses import dataclass

from upshift.measure.profile import FEWEST_STEPS, steady, training
from upshift.measure.steady import Interval, interval
from upshift.session import Snapshot

_NARROW = 0.02
_FEW_STEPS = 8
_SHORT_SECONDS = 8.0
_LONG_SECONDS = 45.0


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far the measurement is, for the eyes."""

    stage: str
    """`starting`, `warming up` or `measuring`."""
    steps: int
    warmup: int
    step: Interval | None
    fraction: float
    """0 to 1, of the measurement."""
    left_seconds: float | None


class Enough:
    """Watches snapshots and says when to stop, and why."""

    def __init__(
        self, *, steps: int | None, seconds: float | None, first_step_seconds: float, patience: float
    ) -> None:
        self.steps = steps
        self.seconds = seconds
        self.first_step_seconds = first_step_seconds
        self.patience = patience
        """Longest time for the whole launch, seconds."""
        self.progress = Progress(
            stage="starting", steps=0, warmup=0, step=None, fraction=0.0, left_seconds=None
        )
        self._looked_at = 0

    def __call__(self, snapshot: Snapshot) -> str | None:
        """A reason to stop, or None."""
        if any(p.too_old for p in snapshot.processes):
            return "too_old"
        log = training(snapshot.processes)
        if log is None or log.active is None:
            return "no_step" if snapshot.elapsed > self.first_step_seconds else None
        if snapshot.elapsed > self.patience:
            return "timeout"
        if len(log.steps) < 2:
            return None
        # Looking costs time that grows with the steps: for fast steps, look when a tenth more has come.
        if len(log.steps) < 1.1 * self._looked_at and snapshot.running:
            return None
        self._looked_at = len(log.steps)
        whole, dropped = steady(log)
        used = whole[dropped:]
        if not used:
            return None
        span = whole[-1].end - log.steps[0]["end"]
        settled = sum(i.seconds for i in used)
        step = interval([i.seconds for i in used])
        self._report(len(whole), dropped, len(used), step, span, settled)
        if len(used) < FEWEST_STEPS:
            return None
        if self.steps is not None:
            return "steps" if len(used) >= self.steps else None
        if self.seconds is not None:
            return "seconds" if span >= self.seconds else None
        if len(used) >= _FEW_STEPS and settled >= _SHORT_SECONDS and step.half_width <= _NARROW:
            return "steady"
        return "seconds" if span >= _LONG_SECONDS and len(used) >= 3 else None

    def _report(
        self, whole: int, dropped: int, used: int, step: Interval, span: float, settled: float
    ) -> None:
        left: float | None
        if self.steps is not None:
            fraction, left = used / self.steps, (self.steps - used) * step.median
        elif self.seconds is not None:
            fraction, left = span / self.seconds, self.seconds - span
        else:
            sure = min(used / _FEW_STEPS, settled / _SHORT_SECONDS)
            if step.half_width > _NARROW:
                sure = min(sure, 0.9)
            fraction = max(sure, span / _LONG_SECONDS)
            left = span / fraction * (1 - fraction) if fraction else None
        self.progress = Progress(
            stage="measuring" if whole > 2 else "warming up",
            steps=whole,
            warmup=dropped,
            step=step,
            fraction=min(1.0, fraction),
            left_seconds=max(0.0, left) if left is not None else None,
        )
