"""Micro-batch and accumulation as observed: forwards, backwards and what the DataLoader delivered.

Backwards per step alone do not say it: a GAN runs two per network and batch, LBFGS twenty on the same samples,
a sharpness-aware optimizer two. Where a DataLoader feeds the loop, the batches it delivered settle the question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import TypeVar

from upshift.measure.iterations import Iteration, Micro

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What the model saw on one rank, per step. None: not observed."""

    micro_batch: int | None
    grad_accum: int | None
    samples: float | None
    """Samples per step, averaged."""
    tokens: float | None
    """Integer ids per step, averaged."""
    padding_share: float | None
    length_median: int | None
    length_max: int | None
    calls: int | None
    """Calls of the model per micro-step."""
    varies: bool
    """The micro-batch is not the same in every step."""


def observe(used: Sequence[Iteration], whole: Sequence[Iteration]) -> Batch:
    """Read the batch off the iterations used for the measurement; padding, sampled thinly, off all of them."""
    chunked = _chunked(used)
    readings = [_reading(i, chunked) for i in used]
    micro = _mode(m for m, _, _ in readings if m is not None)
    accum = _mode(a for _, a, _ in readings if a is not None)
    samples = [s for _, _, s in readings if s is not None]
    rows = [m for i in used for m in i.micro]
    tokens = [t for t in (_tokens(i, accum) for i in used) if t is not None]
    measured = [m for i in whole for m in i.micro if m.padded is not None and m.tokens]
    lengths = sorted(m.length for m in rows if m.length is not None)
    padding = None
    if measured:
        padding = sum(m.padded or 0 for m in measured) / sum(m.tokens or 0 for m in measured)
    return Batch(
        micro_batch=micro,
        grad_accum=accum,
        samples=mean(samples) if samples else None,
        tokens=mean(tokens) if tokens else None,
        padding_share=padding,
        length_median=lengths[len(lengths) // 2] if lengths else None,
        length_max=lengths[-1] if lengths else None,
        calls=_mode(m.calls for m in rows if m.calls),
        varies=len({m for m, _, _ in readings if m is not None}) > 1,
    )


def _chunked(used: Sequence[Iteration]) -> bool:
    """Are deliveries of the DataLoader cut into micro-batches? Over all steps, for a cut may span two."""
    rows = [m for i in used for m in i.micro]
    fetches = sum(m.fetches for m in rows)
    delivered = sum(m.loaded or 0 for m in rows)
    if not delivered or fetches >= len(rows):
        return False
    edge = delivered / fetches  # the first or last delivery may be seen in part
    return abs(sum(m.batch or 0 for m in rows) - delivered) <= edge


def _reading(iteration: Iteration, chunked: bool) -> tuple[int | None, int | None, float | None]:
    """(micro-batch, accumulation, samples) of one iteration."""
    rows = iteration.micro
    if not rows:
        return None, None, None
    backwards = min((len(g) for g in iteration.groups if g), default=0)
    seen = _mode(r.batch for r in rows if r.batch is not None)
    fetches = sum(r.fetches for r in rows)
    loaded = sum(r.loaded or 0 for r in rows)
    if chunked or not loaded:
        if fetches and len(iteration.groups) > 1:
            backwards = min(backwards, fetches)
        return seen, backwards, float(sum(r.batch or 0 for r in rows[:backwards])) if seen else None
    accumulation = min(backwards, fetches)
    per_micro = loaded // accumulation
    if seen is None:
        return per_micro, accumulation, float(loaded)
    called = sum(r.total or 0 for r in rows)
    if called == loaded or (per_micro > 1 and seen % per_micro == 0):
        # Called once per sample, or with several views of each: the samples are what was delivered.
        return per_micro, accumulation, float(loaded)
    return seen, accumulation, float(seen * accumulation)


def _tokens(iteration: Iteration, accumulation: int | None) -> float | None:
    """Ids per step; forwards repeated on the same samples count once."""
    rows: Sequence[Micro] = [r for r in iteration.micro if r.tokens is not None]
    if not rows:
        return None
    share = min(1.0, (accumulation or len(rows)) / len(rows))
    return sum(r.tokens or 0 for r in rows) * share


def _mode(values: Iterable[T]) -> T | None:
    counts = Counter(values)
    return counts.most_common(1)[0][0] if counts else None
