"""What a training counts: its limit, its schedule, how often it evaluates, saves and logs."""

from __future__ import annotations

from upshift.knobs.knob import EXACT, Knob, pattern


def _counted(name: str, like: str, unlike: str, why: str = "", effect: str = EXACT) -> Knob:
    return Knob(
        name=name,
        effect=effect,
        names=pattern(like),
        unlike=pattern(unlike),
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
