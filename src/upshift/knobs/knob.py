"""What can be turned: name, effect on the training, values worth a trial, how people call it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

EXACT, ORDER, NUMERIC, QUALITY = "exact", "order", "numeric", "quality"


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
    values: Callable[[object], Sequence[object]]
    """What to try, given the value now."""
    why: str
    """What it may buy."""


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


_NEVER = _pattern(r"$^")


def _other_bool(now: object) -> Sequence[object]:
    return [not now] if isinstance(now, bool) else []


def _workers(now: object) -> Sequence[object]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return [n for n in (0, 1, 2, 4, 8) if n != now and n <= max(2, cores)]


MICRO_BATCH = Knob(
    name="micro_batch",
    effect=EXACT,
    names=_pattern(
        r"(^|[._-])(per[_-]device[_-])?(train[_-])?(micro[_-]?|mini[_-]?|device[_-])?batch([_-]?size)?([_-]per[_-]\w+)?$"
        r"|^bsz?$|^b$|samples[_-]per[_-]gpu$"
    ),
    unlike=_pattern(r"eval|valid|val[_-]|test|total|global|effective|infer"),
    values=lambda now: (),
    why="fewer, larger calls: fixed costs are paid less often",
)
GRAD_ACCUM = Knob(
    name="grad_accum",
    effect=EXACT,
    names=_pattern(r"accum|update[_-]freq|iter[_-]size"),
    unlike=_pattern(r"eval"),
    values=lambda now: (),
    why="follows the micro-batch, so that the effective batch stays",
)
OTHERS = (
    Knob(
        name="workers",
        effect=EXACT,
        names=_pattern(r"(num|n|data|loader|dataloader)?[_-]?workers$|num[_-]workers"),
        unlike=_pattern(r"eval|val[_-]|test|preproc|proc"),
        values=_workers,
        why="batches are made beside the training",
    ),
    Knob(
        name="checkpointing",
        effect=EXACT,
        names=_pattern(
            r"(gradient|grad|activation)[_-]checkpoint(ing)?$|use[_-]checkpoint(ing)?$|recompute$"
        ),
        unlike=_NEVER,
        values=_other_bool,
        why="what is recomputed in the backward costs a forward",
    ),
    Knob(
        name="compile",
        effect=EXACT,
        names=_pattern(r"(^|[._-])(torch[_-])?compile(d)?([_-]model)?$"),
        unlike=_NEVER,
        values=_other_bool,
        why="fused kernels; the compilation itself takes time",
    ),
    Knob(
        name="fused_optimizer",
        effect=EXACT,
        names=_pattern(r"(^|[._-])(fused|foreach)([_-]\w*)?$"),
        unlike=_NEVER,
        values=_other_bool,
        why="one kernel for all parameters",
    ),
    Knob(
        name="precision",
        effect=NUMERIC,
        names=_pattern(r"(^|[._-])(bf16|fp16|amp|mixed[_-]precision|use[_-]amp)$"),
        unlike=_NEVER,
        values=_other_bool,
        why="lower precision, where this device is really faster in it",
    ),
)
BY_NAME = {knob.name: knob for knob in (MICRO_BATCH, GRAD_ACCUM, *OTHERS)}
