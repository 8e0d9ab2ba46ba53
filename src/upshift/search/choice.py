"""A row of the table of speed and quality."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from upshift.knobs.binding import Binding

_LAST = 0.2
"""The loss at a step is the mean of this share of the steps before it."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Mean of some steps, and how surely it is known."""

    value: float
    error: float
    """Standard error."""
    steps: int
    """Of training when it was reached."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One setting of the table; the first row is the training as it is."""

    knob: str | None
    binding: Binding | None
    before: object
    after: object
    time: float
    """Of the whole training, over that of the first row."""
    equal_steps: Loss | None
    equal_time: Loss | None
    """None where its run was too short for that."""
    validation: float | None
    """The last that the program printed, in a run of equal time."""
    extrapolated: bool = False
    """From the run as it is, not from one of its own."""


def loss_at(losses: Sequence[float], steps: int) -> Loss | None:
    """Mean of the last steps before that one; None where the run did not come so far."""
    first = math.floor(steps * (1 - _LAST))
    part = losses[first:steps]
    if len(losses) < steps or len(part) < 2:
        return None
    return Loss(value=mean(part), error=stdev(part) / math.sqrt(len(part)), steps=steps)
