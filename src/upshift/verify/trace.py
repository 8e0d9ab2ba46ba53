"""What the witnesses of one run saw → `Trace`: every optimizer step with its samples, losses and gradient sketch."""

from __future__ import annotations

import base64
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from upshift.eventlog import Event, ProcessLog
from upshift.knobs.discover import Seen
from upshift.session import Outcome

Vector = tuple[float, ...]
Row = tuple[str | int, ...]
"""One sample in one input: its hash; for sequences also end value, run length, hash without it, and the beginning."""


@dataclass(frozen=True, kw_only=True)
class LossCall:
    """A loss function as the program called it."""

    function: str
    reduction: str
    labels: int
    """Labels that count."""
    classes: int | None
    value: float | None


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """One forward and backward."""

    loss: float | None
    """The value backward was called on; several are summed."""
    calls: tuple[LossCall, ...]
    samples: Mapping[str, tuple[Row, ...]]
    """Rows by input of the model."""
    indices: tuple[tuple[int, ...], ...]
    """Of the dataset, a tuple for each batch the loader delivered."""
    drawn: bool
    """Random numbers were drawn between the model's call and the backward."""
    dtype: str | None
    batch: int | None


@dataclass(frozen=True, kw_only=True)
class Step:
    """One optimizer step."""

    optimizer: int
    micro: tuple[MicroBatch, ...]
    """Of all ranks, rank by rank."""
    ranks: int
    micro_sketches: tuple[Vector, ...]
    """The gradient as it stood after each micro-batch, in the first steps."""
    sketch: Vector
    """Of the gradient before clipping."""
    norm: float
    norm_after: float
    """After clipping."""
    missing: tuple[int, ...]
    """Parameters without a gradient."""
    update: Vector | None
    update_norm: float | None
    clips: int
    scheduler_steps: int
    rates: tuple[float, ...]
    """Learning rates."""
    normed: tuple[tuple[float, float], ...]
    """Norms of some BatchNorm layers' running mean and variance."""

    @property
    def own_micro(self) -> tuple[MicroBatch, ...]:
        """Of one rank."""
        return self.micro[: len(self.micro) // max(1, self.ranks)]

    @property
    def loss(self) -> float | None:
        """Sum over the micro-batches of one rank."""
        values = [m.loss for m in self.own_micro]
        return math.fsum(v for v in values if v is not None) if values and None not in values else None

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """Samples by micro-batch."""
        return tuple(m.batch for m in self.micro)

    @property
    def samples(self) -> int:
        """Of all ranks; micro-batches of unknown size count nothing."""
        return sum(size or 0 for size in self.sizes)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One run."""

    steps: tuple[Step, ...]
    parameters: tuple[tuple[str, tuple[int, ...]], ...]
    width: int
    start: Vector
    """Sketch of the parameters before the first step."""
    normed: int
    """BatchNorm layers in training mode."""
    draws: frozenset[str]
    """`augmentation`, `collation`: parts of the data pipeline that draw random numbers."""
    trainer: Event | None
    sites: Mapping[str, str]
    """file:line by function: where losses are taken and backward is called."""
    loader_batches: int | None
    """Batches of the loader's epoch."""
    loader_samples: int | None
    """Samples of its dataset."""
    seen: Seen | None = None
    """Where its settings come from, if that was asked."""
    cost: float
    """Seconds spent on being watched."""

    @property
    def world_size(self) -> int:
        """Ranks that took part."""
        return self.steps[0].ranks if self.steps else 1

    @property
    def micro_batch(self) -> int | None:
        """Samples of a micro-batch, as most often seen."""
        return _usual([m.batch for s in self.steps for m in s.own_micro])

    @property
    def grad_accum(self) -> int | None:
        """Micro-batches of a step, as most often seen."""
        return _usual([len(s.own_micro) for s in self.steps])


def read(outcome: Outcome) -> Trace | None:
    """The trace of a launch; None where no step was seen."""
    logs = sorted((p for p in outcome.processes if p.witness), key=lambda p: p.rank)
    if not logs:
        return None
    first = logs[0]
    together = [
        log for log in logs if log is first or log.rank != first.rank
    ]  # Hogwild children each train alone: the first speaks for all
    models = list(first.witness_models.values())
    count = min(len(log.witness) for log in together)
    return Trace(
        steps=tuple(_step([log.witness[i] for log in together]) for i in range(count)),
        parameters=tuple((name, tuple(shape)) for model in models for name, shape in model["parameters"]),
        width=models[0]["width"] if models else 0,
        start=tuple(x for model in models for x in unpacked(model["start"])),
        normed=max((model["normed"] for model in models), default=0),
        draws=frozenset(event["what"] for p in outcome.processes for event in p.draws),
        trainer=first.trainer,
        sites={e["function"]: e["where"] for e in first.loss_sites},
        loader_batches=_of_loader(first, "batches"),
        loader_samples=_of_loader(first, "samples"),
        cost=sum(e["cost"] for e in first.witness[-1:]),
    )


def _of_loader(log: ProcessLog, field: str) -> int | None:
    """A fact of the loader that feeds the training: the first one that is no evaluation."""
    return next((e[field] for e in log.loaders if not e["evaluation"]), None)


def _step(events: Sequence[Event]) -> Step:
    first = events[0]
    return Step(
        optimizer=first["optimizer"],
        micro=tuple(_micro(m) for event in events for m in event["micro"]),
        ranks=len(events),
        micro_sketches=tuple(unpacked(text) for text in first["micro_sketches"]),
        sketch=unpacked(first["sketch"]),
        norm=first["norm"],
        norm_after=first["norm_after"],
        missing=tuple(first["missing"]),
        update=unpacked(first["update"]) if first["update"] else None,
        update_norm=first["update_norm"],
        clips=first["clips"],
        scheduler_steps=first["scheduler_steps"],
        rates=tuple(first["lr"]),
        normed=tuple((mean, variance) for mean, variance in first["normed"]),
    )


def _micro(event: Event) -> MicroBatch:
    return MicroBatch(
        loss=math.fsum(event["loss"]) if event["loss"] else None,
        calls=tuple(
            LossCall(function=f, reduction=r, labels=n, classes=c, value=v)
            for f, r, n, c, v in event["labels"]
        ),
        samples={slot: tuple(tuple(row) for row in rows) for slot, rows in event["samples"].items()},
        indices=tuple(tuple(i) for i in event["indices"]),
        drawn=event["drawn"],
        dtype=event["dtype"],
        batch=event["batch"],
    )


def unpacked(text: str) -> Vector:
    """Numbers from the agent's packed float64."""
    numbers = array("d")
    numbers.frombytes(base64.b64decode(text))
    return tuple(numbers)


def _usual(values: Sequence[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return max(set(known), key=known.count) if known else None
