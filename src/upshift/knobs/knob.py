"""What can be turned: name, effect on the training, values worth a trial, how people call it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

EXACT, ORDER, NUMERIC, QUALITY = "exact", "order", "numeric", "quality"


@dataclass(frozen=True)
class Argument:
    """What a constructor calls a knob."""

    callee: str
    """Pattern for the constructor's name."""
    name: str
    beside: str = ""
    """Only in a file that speaks of this."""


@dataclass(frozen=True, kw_only=True)
class Knob:
    """One setting of a training."""

    name: str
    effect: str
    """`exact`, `order`, `numeric` or `quality`: what turning it does to the training."""
    names: re.Pattern[str]
    """How it is called in flags, keys and code."""
    unlike: re.Pattern[str]
    """Names that look alike and are something else."""
    vague: re.Pattern[str] | None = None
    """Where no name fits: names that may mean it, if they hold the value that was observed."""
    values: Callable[[object], Sequence[object]]
    """What to try, given the value now."""
    why: str
    """What it may buy."""
    why_less: str = ""
    """What turning it off or down may buy, where that is something else."""
    arguments: tuple[Argument, ...] = ()
    """Constructors in the user's code that take it: for what is left to its default."""
    variable: str = ""
    """The variable of the environment that sets it."""
    lever: str = ""
    """The agent's lever that sets it: for what has no place in most scripts."""
    stands_for: str = ""
    """The knob that does the same where the program has a place for it: not turned beside that one."""
    start_seconds: float = 0.0
    """What a run with it may take longer to get going: compiling."""

    def reason(self, now: object, value: object) -> str:
        """Why it may pay to turn it from what it is now to this."""
        off = value in (0, False, "no", "float32", "fp32", "32-true")
        down = isinstance(now, int) and isinstance(value, int) and value < now
        return self.why_less if self.why_less and (off or down) else self.why


def pattern(text: str) -> re.Pattern[str]:
    """Of names; people write them as they like."""
    return re.compile(text, re.IGNORECASE)


NEVER = pattern(r"$^")
