"""What is already wrong with the accumulation as it is now: told from one run, before anything is changed."""

from __future__ import annotations

import math
from statistics import median

from upshift.verify import weights
from upshift.verify.causes import clipping, undivided_by_trainer
from upshift.verify.compare import norm
from upshift.verify.trace import Step, Trace

_UNEVEN = 0.05
_CLOSE = 0.03


def wrong_today(trace: Trace) -> tuple[str, ...]:
    """Sentences, each with the line or setting to mend; empty if nothing is wrong or nothing can be told."""
    accumulation = trace.grad_accum or 1
    if accumulation < 2 or _several_terms(trace):
        return ()
    found = []
    scale = loss_scale(trace)
    why = undivided_by_trainer(trace)
    if scale is not None and math.isclose(scale, accumulation, rel_tol=_CLOSE):
        found.append(
            f"the loss is not divided by the accumulation: gradients are {accumulation} times those of the mean"
            + (f": {why}" if why else _at(trace, "backward", f"divide by {accumulation}"))
        )
    elif scale is not None and math.isclose(scale, 1 / accumulation, rel_tol=_CLOSE):
        found.append(
            f"the loss is divided by the accumulation twice: gradients are 1/{accumulation} of those of the mean"
            + _at(trace, "backward", "divide once")
        )
    uneven = max((_distortion(s) for s in trace.steps), default=0.0)
    if uneven > _UNEVEN:
        step = max(trace.steps, key=_distortion)
        counts = weights.label_counts(step) or ()
        found.append(
            f"the loss is a mean of micro-batch means over {min(counts)} to {max(counts)} labels: some count up to "
            f"{uneven:.0%} too much or too little" + _mend(trace, step)
        )
    if any(1 < s.scheduler_steps >= len(s.own_micro) > 1 for s in trace.steps[1:]):
        found.append(
            f"the scheduler steps with every micro-batch: it ends {accumulation} times as early as its steps say"
        )
    clipped = clipping(trace, trace)
    if clipped is not None:
        found.append(clipped)
    return tuple(found)


def _several_terms(trace: Trace) -> bool:
    """Are the backwards of a step terms of one loss, as a discriminator's over real and made-up images?

    Then the model is called on other rows than the loader delivers; in most steps, for batches may be fetched ahead.
    """
    others = 0
    for step in trace.steps:
        loaded = sum(len(batch) for micro in step.own_micro for batch in micro.indices)
        others += bool(loaded) and loaded != sum(micro.batch or 0 for micro in step.own_micro)
    return others > len(trace.steps) / 2


def loss_scale(trace: Trace) -> float | None:
    """How many times the mean gradient the optimizer gets: 1 is right. None where the losses do not tell."""
    factors = []
    whole = [s for s in trace.steps if len(s.own_micro) == trace.grad_accum]
    for step in whole:
        for micro in step.own_micro:
            raw = [c.value for c in micro.calls if c.reduction == "mean" and c.value]
            if len(raw) != 1 or micro.loss is None:
                return None  # several terms: what the loss was before it was divided cannot be told
            factors.append(micro.loss / raw[0])
    if not factors or max(factors) - min(factors) > 0.01 * abs(median(factors)):
        return None
    return median(factors) * (trace.grad_accum or 1) * _rescaled(whole[0])


def _rescaled(step: Step) -> float:
    """By how much gradients were scaled between the last backward and the step."""
    if not step.micro_sketches or step.ranks != 1:
        return 1.0
    size = norm(step.micro_sketches[-1])
    return norm(step.sketch) / size if size else 1.0


def _distortion(step: Step) -> float:
    if not weights.averaged(step):
        return 0.0
    return weights.distortion(weights.label_counts(step) or ())


def _mend(trace: Trace, step: Step) -> str:
    if trace.trainer is not None and not trace.trainer["accepts_loss_kwargs"]:
        return f"; {trace.trainer['model']}.forward does not take num_items_in_batch, which Trainer offers"
    function = next((c.function for m in step.micro for c in m.calls if c.reduction == "mean"), "")
    return _at(trace, function, "sum, and divide by the labels of the whole step")


def _at(trace: Trace, function: str, what: str) -> str:
    where = trace.sites.get(function)
    return f" ({where}: {what})" if where else ""
