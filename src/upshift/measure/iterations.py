"""Groups of optimizer steps → iterations of the training loop.

One optimizer, or several that step together, and a group is an iteration. A GAN steps them in turn: then an
iteration begins with the optimizer that steps most often (in a tie the one that is handed the data).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from upshift.eventlog import Event, ProcessLog
from upshift.inject.upshift_agent.events import CHECKPOINT, MICRO_FIELDS, PHASES


@dataclass(frozen=True, kw_only=True)
class Micro:
    """One micro-step, as the agent saw it. Field meanings: the agent's MICRO_FIELDS."""

    batch: int | None
    total: int | None
    calls: int
    loaded: int | None
    fetches: int
    tokens: int | None
    padded: int | None
    length: int | None
    longest: int | None
    inside: bool


@dataclass(frozen=True, kw_only=True)
class Iteration:
    """One turn of the training loop."""

    end: float
    """Monotonic seconds."""
    phases: tuple[float, ...]
    """Seconds by phase, in the order of the agent's PHASES; evaluation excluded."""
    nograd: tuple[float, ...] | None
    """The same for forwards under no_grad that came before the first training forward."""
    evaluates: bool
    """`nograd` looks like an evaluation: eval mode, or a DataLoader's batches."""
    evaluation: float
    """Seconds between eval() and train()."""
    groups: tuple[tuple[Micro, ...], ...]
    """Micro-steps by group of optimizer steps."""
    optimizers: tuple[str, ...]
    skipped: bool
    device: str | None

    @property
    def seconds(self) -> float:
        """Time of the step itself: everything but evaluation and saving."""
        return sum(self.phases) - float(self.phases[CHECKPOINT])

    @property
    def micro(self) -> tuple[Micro, ...]:
        """All micro-steps."""
        return tuple(m for group in self.groups for m in group)


def iterations(log: ProcessLog) -> tuple[Iteration, ...]:
    """Whole iterations of one process. The first group is partial and left out."""
    groups = log.steps[1:]
    if not groups:
        return ()
    start = _start_key(groups)
    merged: list[list[Event]] = []
    for group in groups:
        if _key(group) == start:
            merged.append([group])
        elif merged:
            merged[-1].append(group)
    # The last one may still be waiting for the optimizers that end it.
    longest = max(len(m) for m in merged)
    if longest > 1 and len(merged) > 1 and len(merged[-1]) < len(merged[-2]):
        merged.pop()
    return tuple(_merge(m, log) for m in merged)


def _key(group: Event) -> tuple[str, ...]:
    return tuple(dict.fromkeys(group["optimizers"]))


def _start_key(groups: Sequence[Event]) -> tuple[str, ...]:
    counts = Counter(_key(g) for g in groups)
    fetches: Counter[tuple[str, ...]] = Counter()
    for group in groups:
        fetches[_key(group)] += sum(row[MICRO_FIELDS.index("fetches")] for row in group["micro"])
    most = max(counts.values())
    # Within one of the most, for the run was cut somewhere in a turn.
    tied = [key for key in counts if counts[key] >= most - 1 and counts[key] * 2 > most]
    return max(tied, key=lambda key: (fetches[key], -list(counts).index(key)))


def _merge(groups: Sequence[Event], log: ProcessLog) -> Iteration:
    phases = [0.0] * len(PHASES)
    nograd = [0.0] * len(PHASES)
    for group in groups:
        vector = log.gpu.get(group["index"]) or group["phases"]
        phases = [a + b for a, b in zip(phases, vector, strict=True)]
        if group["nograd"]:
            nograd = [a + b for a, b in zip(nograd, group["nograd"], strict=True)]
    return Iteration(
        end=groups[-1]["end"],
        phases=tuple(phases),
        nograd=tuple(nograd) if any(nograd) else None,
        evaluates=any(g["evaluates"] for g in groups),
        evaluation=sum(g["eval"] for g in groups),
        groups=tuple(
            tuple(Micro(**dict(zip(MICRO_FIELDS, row, strict=True))) for row in g["micro"]) for g in groups
        ),
        optimizers=tuple(dict.fromkeys(name for g in groups for name in g["optimizers"])),
        skipped=any(g["skipped"] for g in groups),
        device=groups[-1]["device"],
    )
