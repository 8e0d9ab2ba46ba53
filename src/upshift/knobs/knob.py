"""What can be turned: name, effect on the training, values worth a trial, how people call it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from upshift.config import cores

EXACT, ORDER, NUMERIC, QUALITY = "exact", "order", "numeric", "quality"


@dataclass(frozen=True)
class Argument:
    """What a constructor calls a knob."""

    callee: str
    """Pattern for the constructor's name."""
    name: str
    beside: str = ""
    """Only in a file that speaks of this."""


_HF = r"\w*TrainingArguments|(SFT|DPO|GRPO|KTO|ORPO|Reward)Config"


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
    arguments: tuple[Argument, ...] = ()
    """Constructors in the user's code that take it: for what is left to its default."""
    variable: str = ""
    """The variable of the environment that sets it."""
    lever: str = ""
    """The agent's lever that sets it: for what has no place in most scripts."""


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


_NEVER = _pattern(r"$^")


def _other_bool(now: object) -> Sequence[object]:
    return [not now] if isinstance(now, bool) else []


def _switch_on(now: object) -> Sequence[object]:
    return [True] if now in (None, False) else []


_PRECISIONS = {
    "float32": ("bfloat16", "float16"),
    "fp32": ("bf16", "fp16"),
    "no": ("bf16", "fp16"),
    "32": ("bf16-mixed", "16-mixed"),
    "32-true": ("bf16-mixed", "16-mixed"),
    "bfloat16": ("float32",),
    "float16": ("float32",),
    "bf16-mixed": ("32-true",),
    "16-mixed": ("32-true",),
}
"""As scripts, accelerate and Lightning spell them. Upwards too: some devices are slower in the lower one."""


def _other_precision(now: object) -> Sequence[object]:
    return _other_bool(now) if isinstance(now, bool) else _PRECISIONS.get(str(now), ())


def _workers(now: object) -> Sequence[object]:
    return [n for n in (0, 1, 2, 4, 8) if n != (now or 0) and n <= max(2, cores())]


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
    arguments=(Argument(_HF, "per_device_train_batch_size"),),
)
GRAD_ACCUM = Knob(
    name="grad_accum",
    effect=EXACT,
    names=_pattern(
        r"accum|grad[_-]?acc|acc[_-]?(steps?|iters?)$|update[_-]freq|iter[_-]size|num[_-]micro[_-]?batches"
    ),
    unlike=_pattern(r"eval|accura"),
    vague=_pattern(r"grad|batch|micro|multipl|virtual|steps?$|every$"),
    values=lambda now: (),
    why="follows the micro-batch, so that the effective batch stays",
    arguments=(
        Argument(_HF, "gradient_accumulation_steps"),
        Argument("Accelerator", "gradient_accumulation_steps"),
        Argument("Trainer", "accumulate_grad_batches", beside="lightning"),
    ),
)
WHOLE_BATCH = Knob(
    name="effective_batch",
    effect=QUALITY,
    names=_pattern(
        r"(total|global|effective|desired|full)[_-]?(train[_-]?)?(batch([_-]?size)?|tokens)$|tokens[_-]per[_-](step|batch)$"
    ),
    unlike=_pattern(r"eval|val[_-]|test"),
    values=lambda now: (),
    why="",
)
"""Where it is set, the accumulation is likely to follow from it. Never turned."""
OTHERS = (
    Knob(
        name="workers",
        effect=EXACT,
        names=_pattern(r"(num|n|data|loader|dataloader)?[_-]?workers$|num[_-]workers"),
        unlike=_pattern(r"eval|val[_-]|test|preproc|proc"),
        values=_workers,
        why="batches are made beside the training",
        arguments=(Argument("DataLoader", "num_workers"), Argument(_HF, "dataloader_num_workers")),
    ),
    Knob(
        name="persistent_workers",
        effect=ORDER,
        names=_pattern(r"persistent[_-]workers$"),
        unlike=_pattern(r"eval|val[_-]|test"),
        values=_switch_on,
        why="workers are not started anew in every epoch",
        arguments=(
            Argument("DataLoader", "persistent_workers"),
            Argument(_HF, "dataloader_persistent_workers"),
        ),
    ),
    Knob(
        name="prefetch_factor",
        effect=EXACT,
        names=_pattern(r"prefetch[_-]factor$"),
        unlike=_pattern(r"eval|val[_-]|test"),
        values=lambda now: [4, 8] if now in (None, 1, 2) else [],
        why="workers that make batches of uneven cost get further ahead",
        arguments=(
            Argument("DataLoader", "prefetch_factor"),
            Argument(_HF, "dataloader_prefetch_factor"),
        ),
    ),
    Knob(
        name="pin_memory",
        effect=EXACT,
        names=_pattern(r"pin[_-]memory$"),
        unlike=_pattern(r"eval|val[_-]|test"),
        values=_switch_on,
        why="copies to the GPU need no copy in between",
        arguments=(Argument("DataLoader", "pin_memory"),),
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
        values=_switch_on,
        why="one kernel for all parameters",
        arguments=(Argument(r"AdamW?|SGD|Adagrad", "fused"),),
    ),
    Knob(
        name="ddp_bucket",
        effect=EXACT,
        names=_pattern(r"bucket[_-]cap([_-]mb)?$"),
        unlike=_NEVER,
        values=lambda now: [100] if now in (None, 25) else [],
        why="gradients are exchanged in fewer, larger pieces",
        arguments=(
            Argument("DistributedDataParallel|DDP", "bucket_cap_mb"),
            Argument(_HF, "ddp_bucket_cap_mb"),
        ),
    ),
    Knob(
        name="attention",
        effect=EXACT,
        names=_pattern(r"attn[_-]impl(ementation)?$|attention[_-](impl(ementation)?|backend|type)$"),
        unlike=_NEVER,
        values=lambda now: ["sdpa"] if now in ("eager", "naive", "math", "manual") else [],
        why="one kernel instead of a matrix of all pairs",
    ),
    Knob(
        name="precision",
        effect=NUMERIC,
        names=_pattern(
            r"(^|[._-])(bf16|fp16|amp|use[_-]amp|((mixed|train(ing)?)[_-])?precision|(\w+[_-])?dtype)$"
        ),
        unlike=_pattern(r"matmul|label|data[_-]?dtype|input|quant|param|grad|reduce"),
        values=_other_precision,
        why="lower precision, where this device is really faster in it",
    ),
)


def _lever(name: str, why: str) -> Knob:
    return Knob(name=name, effect=EXACT, names=_NEVER, unlike=_NEVER, values=_switch_on, why=why, lever=name)


LEVERS = (
    _lever("channels_last", "convolutions read the channels of a pixel together"),
    _lever("no_sync", "ranks exchange their gradients once a step, not with every micro-batch"),
    _lever("length_groups", "samples of like length share a micro-batch of their step: less padding"),
)
"""Turned inside the run, whatever the script; `upshift run --tuned` carries them."""
THREADS = Knob(
    name="threads",
    effect=EXACT,
    names=_NEVER,
    unlike=_NEVER,
    values=lambda now: [n for n in dict.fromkeys((1, cores())) if n != now],
    why="threads that wait for each other cost more than they bring",
    variable="OMP_NUM_THREADS",
)
VARIABLES = (
    THREADS,
    Knob(
        name="allocator",
        effect=EXACT,
        names=_NEVER,
        unlike=_NEVER,
        values=lambda now: ["glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=8589934592"],
        why="freed memory is kept for the next step instead of being given back and faulted in again",
        variable="GLIBC_TUNABLES",
    ),
    Knob(
        name="tf32",
        effect=NUMERIC,
        names=_NEVER,
        unlike=_NEVER,
        values=lambda now: ["1"],
        why="float32 matrix products on tensor cores, with a shorter mantissa",
        variable="TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    ),
)
"""Set in the environment, whatever the script."""


def _counted(name: str, pattern: str, unlike: str, why: str = "", effect: str = EXACT) -> Knob:
    return Knob(
        name=name,
        effect=effect,
        names=_pattern(pattern),
        unlike=_pattern(unlike),
        values=lambda now: (),
        why=why or "is counted in micro-batches, and follows them",
    )


_EVERY = r"(every|interval|freq|frequency|steps|period)([_-]n)?([_-]steps)?$"
LIMIT = _counted(
    "max_steps",
    r"^(max|total|num|n|train|training)[_-]?(train(ing)?[_-]|optimizer[_-]|global[_-])?"
    r"(steps|iters?|iterations|updates)$|^(steps|iterations)$",
    r"warm|eval|val[_-]|test|save|log|accum|decay",
)
EVAL_EVERY = _counted(
    "eval_every", r"(eval|evaluate|val|valid|validation|validate)[_-]?" + _EVERY, r"save|log"
)
SAVE_EVERY = _counted(
    "save_every", r"(save|checkpoint|checkpointing|ckpt|snapshot)[_-]?" + _EVERY, r"eval|log"
)
LOG_EVERY = _counted("log_every", r"(log|logging|print|report)[_-]?" + _EVERY, r"eval|save|dir|file")
SCHEDULE = (
    _counted(
        "warmup", r"warm[_-]?up([_-]?(steps|iters?|iterations|updates))?$", r"ratio|factor|lr|proportion|frac"
    ),
    _counted("decay", r"(decay|cosine|anneal\w*)[_-]?(steps|iters?|iterations)$|^t[_-]max$", r"rate|weight"),
    LIMIT,
)
"""What a learning rate's schedule is set with."""


def _shorter(now: object) -> Sequence[object]:
    """Three quarters and half, in eights."""
    return [now * part // 32 * 8 for part in (3, 2)] if isinstance(now, int) and now >= 32 else []


SEQUENCE = Knob(
    name="sequence_limit",
    effect=QUALITY,
    names=_pattern(
        r"(^|[._-])(max[_-]?)?(seq(uence)?|context|ctx|src|source|tgt|target|text|input|sentence)s?[_-]?(max[_-]?)?"
        r"(len|length)s?$|(^|[._-])max[_-]?(len|length|tokens)$|^block[_-]?size$|^(context|ctx)[_-](size|window)$|^bptt$"
    ),
    unlike=_pattern(r"min|eval|val[_-]|test|gen|new[_-]|label"),
    values=_shorter,
    why="less to compute for each sample, and less of it to learn from",
)


def _rates(now: object) -> Sequence[object]:
    """Twice and half. YAML reads 1e-3 as text."""
    try:
        rate = float(str(now))
    except ValueError:
        return []
    return [float(f"{rate * factor:.4g}") for factor in (2, 0.5)] if 0 < rate < 10 else []


def _parts(*parts: float) -> Callable[[object], Sequence[object]]:
    """Of a whole number, none of them 0."""

    def values(now: object) -> Sequence[object]:
        if not isinstance(now, int):
            return []
        return list(dict.fromkeys(n for part in parts if 0 < (n := round(now * part)) < now))

    return values


EPOCHS = Knob(
    name="epochs",
    effect=QUALITY,
    names=_pattern(r"^(max|num|n|total|train|training)?[_-]?(train[_-]|training[_-])?epochs?$"),
    unlike=_pattern(r"warm|eval|val[_-]|test|save|log|start|decay|every"),
    values=_parts(0.75, 0.5),
    why="less training",
)
EVAL_PART = Knob(
    name="eval_part",
    effect=QUALITY,
    names=_pattern(
        r"(^|[._-])(limit|max|num|n)[_-](eval|val|valid|validation)[_-](batches|samples|steps|iters|examples)$"
        r"|(^|[._-])(eval|val|valid|validation)[_-](batches|samples|iters|size|examples)$"
    ),
    unlike=_pattern(r"batch[_-]size|every|interval"),
    values=_parts(0.5, 0.25),
    why="evaluations of a part of the data, and less sure ones",
)
QUALITY_KNOBS = (
    SEQUENCE,
    Knob(
        name="model_width",
        effect=QUALITY,
        names=_pattern(
            r"^(hidden([_-]?(size|dim|units))?|d[_-]?model|n[_-]?embd|embed(ding)?[_-]?(dim|size)|dim|width|nhid|emsize)$"
        ),
        unlike=_NEVER,
        values=_shorter,
        why="a smaller model",
    ),
    Knob(
        name="learning_rate",
        effect=QUALITY,
        names=_pattern(r"(^|[._-])(lr|learning[_-]?rate)$"),
        unlike=_pattern(r"min|final|end|decay|warm|ratio"),
        values=_rates,
        why="larger or smaller steps",
    ),
    EPOCHS,
    EVAL_PART,
)
"""Another training: shown with what they cost, never taken."""
BY_NAME = {
    knob.name: knob
    for knob in (
        MICRO_BATCH,
        GRAD_ACCUM,
        *VARIABLES,
        *OTHERS,
        *LEVERS,
        EVAL_EVERY,
        SAVE_EVERY,
        LOG_EVERY,
        *QUALITY_KNOBS,
    )
}
