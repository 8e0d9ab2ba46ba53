"""All that can be turned without making another training of it, and everything by its name."""

from __future__ import annotations

from collections.abc import Sequence

from upshift.config import cores
from upshift.knobs import allocators
from upshift.knobs.counted import EVAL_EVERY, LOG_EVERY, SAVE_EVERY
from upshift.knobs.knob import EXACT, NEVER, NUMERIC, ORDER, QUALITY, Argument, Knob, pattern
from upshift.knobs.quality import QUALITY_KNOBS

_HF = r"\w*TrainingArguments|(SFT|DPO|GRPO|KTO|ORPO|Reward)Config"


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
    names=pattern(
        r"(^|[._-])(per[_-]device[_-])?(train[_-])?(micro[_-]?|mini[_-]?|device[_-])?batch([_-]?size)?([_-]per[_-]\w+)?$"
        r"|^bsz?$|^b$|samples[_-]per[_-]gpu$"
    ),
    unlike=pattern(r"eval|valid|val[_-]|test|total|global|effective|infer"),
    values=lambda now: (),
    why="fewer, larger calls: fixed costs are paid less often",
    arguments=(Argument(_HF, "per_device_train_batch_size"),),
)
GRAD_ACCUM = Knob(
    name="grad_accum",
    effect=EXACT,
    names=pattern(
        r"accum|grad[_-]?acc|acc[_-]?(steps?|iters?)$|update[_-]freq|iter[_-]size|num[_-]micro[_-]?batches"
    ),
    unlike=pattern(r"eval|accura"),
    vague=pattern(r"grad|batch|micro|multipl|virtual|steps?$|every$"),
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
    names=pattern(
        r"(total|global|effective|desired|full)[_-]?(train[_-]?)?(batch([_-]?size)?|tokens)$|tokens[_-]per[_-](step|batch)$"
    ),
    unlike=pattern(r"eval|val[_-]|test"),
    values=lambda now: (),
    why="",
)
"""Where it is set, the accumulation is likely to follow from it. Never turned."""
WORKERS = Knob(
    name="workers",
    effect=EXACT,
    names=pattern(r"(num|n|data|loader|dataloader)?[_-]?workers$|num[_-]workers"),
    unlike=pattern(r"eval|val[_-]|test|preproc|proc"),
    values=_workers,
    why="batches are made beside the training",
    why_less="handing batches over takes longer here than making them",
    arguments=(Argument("DataLoader", "num_workers"), Argument(_HF, "dataloader_num_workers")),
)
FEEDING = (
    WORKERS,
    Knob(
        name="persistent_workers",
        effect=ORDER,
        names=pattern(r"persistent[_-]workers$"),
        unlike=pattern(r"eval|val[_-]|test"),
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
        names=pattern(r"prefetch[_-]factor$"),
        unlike=pattern(r"eval|val[_-]|test"),
        values=lambda now: [4, 8] if now in (None, 1, 2) else [],
        why="workers that make batches of uneven cost get further ahead",
        arguments=(
            Argument("DataLoader", "prefetch_factor"),
            Argument(_HF, "dataloader_prefetch_factor"),
        ),
    ),
)
"""What the loader is set up with."""
_COMPILING = 30.0
PLACED = (
    Knob(
        name="pin_memory",
        effect=EXACT,
        names=pattern(r"pin[_-]memory$"),
        unlike=pattern(r"eval|val[_-]|test"),
        values=_switch_on,
        why="copies to the GPU need no copy in between",
        arguments=(Argument("DataLoader", "pin_memory"),),
    ),
    Knob(
        name="checkpointing",
        effect=EXACT,
        names=pattern(r"(gradient|grad|activation)[_-]checkpoint(ing)?$|use[_-]checkpoint(ing)?$|recompute$"),
        unlike=NEVER,
        values=_other_bool,
        why="what is recomputed in the backward costs a forward",
    ),
    Knob(
        name="compile",
        effect=EXACT,
        names=pattern(r"(^|[._-])(torch[_-])?compile(d)?([_-]model)?$"),
        unlike=NEVER,
        values=_other_bool,
        why="fused kernels; the compilation itself takes time",
        why_less="what is compiled is no faster here, and compiling takes time",
        arguments=(Argument(_HF, "torch_compile"),),
        start_seconds=_COMPILING,
    ),
    Knob(
        name="fused_optimizer",
        effect=EXACT,
        names=pattern(r"(^|[._-])(fused|foreach)([_-]\w*)?$"),
        unlike=NEVER,
        values=_switch_on,
        why="one kernel for all parameters",
        arguments=(Argument(r"AdamW?|SGD|Adagrad", "fused"),),
    ),
    Knob(
        name="ddp_bucket",
        effect=EXACT,
        names=pattern(r"bucket[_-]cap([_-]mb)?$"),
        unlike=NEVER,
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
        names=pattern(r"attn[_-]impl(ementation)?$|attention[_-](impl(ementation)?|backend|type)$"),
        unlike=NEVER,
        values=lambda now: ["sdpa"] if now in ("eager", "naive", "math", "manual") else [],
        why="one kernel instead of a matrix of all pairs",
    ),
    Knob(
        name="precision",
        effect=NUMERIC,
        names=pattern(
            r"(^|[._-])(bf16|fp16|amp|use[_-]amp|((mixed|train(ing)?)[_-])?precision|(\w+[_-])?dtype)$"
        ),
        unlike=pattern(r"matmul|label|data[_-]?dtype|input|quant|param|grad|reduce"),
        values=_other_precision,
        why="lower precision, where this device is really faster in it",
        why_less="this device is slower in lower precision",
    ),
)


def _lever(
    name: str, why: str, effect: str = EXACT, stands_for: str = "", start_seconds: float = 0.0
) -> Knob:
    return Knob(
        name=name,
        effect=effect,
        names=NEVER,
        unlike=NEVER,
        values=_switch_on,
        why=why,
        lever=name,
        stands_for=stands_for,
        start_seconds=start_seconds,
    )


LEVERS = (
    _lever("channels_last", "convolutions read the channels of a pixel together"),
    _lever("no_sync", "ranks exchange their gradients once a step, not with every micro-batch"),
    _lever("length_groups", "samples of like length share a micro-batch of their step: less padding"),
    _lever(
        "autocast", "the model computes in bfloat16, where this device is faster in it", NUMERIC, "precision"
    ),
    _lever("compiled", "fused kernels; the compilation itself takes time", EXACT, "compile", _COMPILING),
)
"""Turned inside the run, whatever the script; `upshift run --tuned` carries them."""
THREADS = Knob(
    name="threads",
    effect=EXACT,
    names=NEVER,
    unlike=NEVER,
    values=lambda now: [n for n in dict.fromkeys((1, cores())) if n != now],
    why="threads that wait for each other cost more than they bring",
    variable="OMP_NUM_THREADS",
)
KEPT_MEMORY = Knob(
    name="allocator",
    effect=EXACT,
    names=NEVER,
    unlike=NEVER,
    values=lambda now: [allocators.KEEPING] if now is None else [],
    why="freed memory is kept for the next step instead of being given back and faulted in again",
)
OTHER_ALLOCATOR = Knob(
    name=KEPT_MEMORY.name,
    effect=EXACT,
    names=NEVER,
    unlike=NEVER,
    values=lambda now: list(allocators.installed()) if now in (None, allocators.KEEPING) else [],
    why="an allocator that is quicker at what torch asks for, many times a step",
)
ALLOCATORS = (KEPT_MEMORY, OTHER_ALLOCATOR)
"""One setting, tried at two moments. What the user has chosen himself is left alone."""
VARIABLES = (
    *ALLOCATORS,
    Knob(
        name="tf32",
        effect=NUMERIC,
        names=NEVER,
        unlike=NEVER,
        values=lambda now: ["1"],
        why="float32 matrix products on tensor cores, with a shorter mantissa",
        variable="TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    ),
)
"""Set in the environment, whatever the script."""
OTHERS = (*VARIABLES, *PLACED, *LEVERS, THREADS)
"""In this order. Threads last: what they share is what the others have left of a step."""
BY_NAME = {
    knob.name: knob
    for knob in (
        MICRO_BATCH,
        GRAD_ACCUM,
        *FEEDING,
        *OTHERS,
        EVAL_EVERY,
        SAVE_EVERY,
        LOG_EVERY,
        *QUALITY_KNOBS,
    )
}
