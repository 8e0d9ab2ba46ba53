"""What makes another training: shown with what it costs, never taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from upshift.knobs.knob import NEVER, QUALITY, Knob, pattern


def _shorter(now: object) -> Sequence[object]:
    """Three quarters and half, in eights."""
    return [now * part // 32 * 8 for part in (3, 2)] if isinstance(now, int) and now >= 32 else []


SEQUENCE = Knob(
    name="sequence_limit",
    effect=QUALITY,
    names=pattern(
        r"(^|[._-])(max[_-]?)?(seq(uence)?|context|ctx|src|source|tgt|target|text|input|sentence)s?[_-]?(max[_-]?)?"
        r"(len|length)s?$|(^|[._-])max[_-]?(len|length|tokens)$|^block[_-]?size$|^(context|ctx)[_-](size|window)$|^bptt$"
    ),
    unlike=pattern(r"min|eval|val[_-]|test|gen|new[_-]|label"),
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
    names=pattern(r"^(max|num|n|total|train|training)?[_-]?(train[_-]|training[_-])?epochs?$"),
    unlike=pattern(r"warm|eval|val[_-]|test|save|log|start|decay|every"),
    values=_parts(0.75, 0.5),
    why="less training",
)
EVAL_PART = Knob(
    name="eval_part",
    effect=QUALITY,
    names=pattern(
        r"(^|[._-])(limit|max|num|n)[_-](eval|val|valid|validation)[_-](batches|samples|steps|iters|examples)$"
        r"|(^|[._-])(eval|val|valid|validation)[_-](batches|samples|iters|size|examples)$"
    ),
    unlike=pattern(r"batch[_-]size|every|interval"),
    values=_parts(0.5, 0.25),
    why="evaluations of a part of the data, and less sure ones",
)
QUALITY_KNOBS = (
    SEQUENCE,
    Knob(
        name="model_width",
        effect=QUALITY,
        names=pattern(
            r"^(hidden([_-]?(size|dim|units))?|d[_-]?model|n[_-]?embd|embed(ding)?[_-]?(dim|size)|dim|width|nhid|emsize)$"
        ),
        unlike=NEVER,
        values=_shorter,
        why="a smaller model",
    ),
    Knob(
        name="learning_rate",
        effect=QUALITY,
        names=pattern(r"(^|[._-])(lr|learning[_-]?rate)$"),
        unlike=pattern(r"min|final|end|decay|warm|ratio"),
        values=_rates,
        why="larger or smaller steps",
    ),
    EPOCHS,
    EVAL_PART,
)
"""Another training: shown with what they cost, never taken."""
