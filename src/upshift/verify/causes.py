"""Why two trainings differ, named from evidence: one function a cause, the proven ones first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from upshift.verify import weights
from upshift.verify.compare import Difference
from upshift.verify.samples import Naming, matching, names_of, namings
from upshift.verify.trace import MicroBatch, Step, Trace

_CLOSE = 0.02
"""A factor is one if it is within this of it."""
_UNEVEN = 0.01
_ADDITIVE = 1e-3
"""Losses of parts and whole agree within this."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What makes the difference."""

    kind: str
    because: str
    evidence: tuple[str, ...] = ()


def name(a: Trace, b: Trace, off: Sequence[Difference], limit: float) -> Cause | None:
    """The cause of gradient differences at these steps; None if none is known."""
    for rule in (_clipped, _scaled, _mean_of_means, _contrastive, _batch_norm, _coupled, _tensors):
        found = rule(a, b, off, limit)
        if found is not None:
            return found
    return None


def hazard(a: Trace, b: Trace) -> Cause | None:
    """What would make the two differ whatever they are trained on: for runs whose gradients cannot be compared."""
    every = [
        Difference(
            step=i,
            rho=1.0,
            epsilon=0.0,
            residual=math.inf,
            tensors=(),
            update_epsilon=None,
            loss_a=None,
            loss_b=None,
            rates_equal=True,
            samples=None,
            indices=None,
            identical=False,
        )
        for i in range(min(len(a.steps), len(b.steps)))
    ]
    rules = (
        (_clipped, _mean_of_means, _contrastive, _batch_norm)
        if a.micro_batch != b.micro_batch
        else (_clipped,)
    )
    return next((found for rule in rules if (found := rule(a, b, every, 0.0)) is not None), None)


def _clipped(a: Trace, b: Trace, off: Sequence[Difference], limit: float) -> Cause | None:
    why = clipping(a, b)
    return Cause(kind="clipping", because=why) if why and a.grad_accum != b.grad_accum else None


def clipping(a: Trace, b: Trace) -> str | None:
    """Gradients clipped after every micro-batch, not once a step."""
    for trace in (a, b):
        often = [s for s in trace.steps if s.clips > 1 and s.clips >= len(s.own_micro) > 1]
        if often:
            return (
                f"gradients are clipped after every micro-batch ({often[0].clips} times a step): what is cut off "
                "depends on the micro-batch"
            )
    return None


def _scaled(a: Trace, b: Trace, off: Sequence[Difference], limit: float) -> Cause | None:
    """B is a times a number."""
    if any(d.residual > max(10 * limit, 1e-4) or not 1e-6 < abs(d.rho) < 1e6 for d in off):
        return None
    partial = _partly_scaled(a, b, off)
    if partial is not None:
        return partial
    factors = [d.rho for d in off]
    low, high = min(factors), max(factors)
    if high / low > 1 + _CLOSE or abs(low - 1) < _CLOSE:
        return None
    k = (a.grad_accum or 1) / (b.grad_accum or 1)
    rho = sum(factors) / len(factors)
    ga, gb = a.grad_accum, b.grad_accum
    if math.isclose(rho, 1 / k, rel_tol=_CLOSE) and k != 1:
        return Cause(
            kind="loss scale",
            because=f"the loss is not divided by the accumulation: gradients are sums of {ga} against {gb} "
            f"micro-batches, ρ = {rho:.3g}",
            evidence=_left_to_the_model(a)
            or _site(a, "backward", "divide the loss by the number of micro-batches"),
        )
    if math.isclose(rho, k, rel_tol=_CLOSE) and k != 1:
        return Cause(
            kind="loss scale",
            because=f"the loss is divided by the accumulation twice: ρ = {rho:.3g} for {ga} and {gb} micro-batches",
            evidence=_site(a, "backward", "divide the loss once"),
        )
    if k == 1 or _per_sample(a, b, rho):
        return Cause(
            kind="loss scale",
            because=f"the gradients of b are {rho:.3g} times those of a, and otherwise the same",
            evidence=_site(b, "backward", "look at how the loss is scaled"),
        )
    return Cause(
        kind="loss scale", because=f"every gradient is {rho:.3g} times as large, and otherwise the same"
    )


def _per_sample(a: Trace, b: Trace, rho: float) -> bool:
    return bool(
        a.micro_batch and b.micro_batch and math.isclose(rho, b.micro_batch / a.micro_batch, rel_tol=_CLOSE)
    )


def _partly_scaled(a: Trace, b: Trace, off: Sequence[Difference]) -> Cause | None:
    """Right in whole windows, off by a factor in the partial ones."""
    usual_a, usual_b = a.grad_accum or 1, b.grad_accum or 1
    short = [
        d
        for d in off
        if len(a.steps[d.step].own_micro) < usual_a
        or len(b.steps[d.step].own_micro) < usual_b
        or a.steps[d.step].samples < (a.micro_batch or 0) * usual_a * a.world_size
    ]
    if not short or len(short) < len(off):
        return None
    d = short[0]
    return Cause(
        kind="partial window",
        because=f"step {d.step + 1} ends an epoch with a partial window ({a.steps[d.step].samples} samples), whose "
        f"loss is normalised as if it were whole on one side: ρ = {d.rho:.3g}",
        evidence=("whole windows agree",),
    )


def _left_to_the_model(trace: Trace) -> tuple[str, ...]:
    why = undivided_by_trainer(trace)
    return (why,) if why else ()


def undivided_by_trainer(trace: Trace) -> str | None:
    """Trainer divides the loss by the accumulation, unless the model says that it will."""
    if trace.trainer is None or not trace.trainer["accepts_loss_kwargs"]:
        return None
    return (
        f"{trace.trainer['model']}.forward takes **kwargs, so Trainer leaves dividing to it, and its loss ignores "
        "num_items_in_batch: set trainer.model_accepts_loss_kwargs = False before train()"
    )


def _site(trace: Trace, function: str, what: str) -> tuple[str, ...]:
    where = trace.sites.get(function)
    return (f"{where}: {what}",) if where else ()


def _mean_of_means(a: Trace, b: Trace, off: Sequence[Difference], limit: float) -> Cause | None:
    """Tokens weighed by the micro-batch they happen to be in."""
    pairs = [(a.steps[d.step], b.steps[d.step], d) for d in off]
    uneven = [
        (left, right, d)
        for left, right, d in pairs
        if (weights.averaged(left) or weights.averaged(right))
        and max(_distortion(left), _distortion(right)) > _UNEVEN
    ]
    if not uneven or len(uneven) < 0.5 * len(pairs):
        return None
    left, right, _ = max(uneven, key=lambda p: max(_distortion(p[0]), _distortion(p[1])))
    worst = max(_distortion(left), _distortion(right))
    proofs = [
        (p, d)
        for x, y, d in uneven
        if d.epsilon and (p := weights.difference_once_reweighted(x, y)) is not None
    ]
    if proofs and any(p > max(0.05 * d.epsilon, 20 * limit) for p, d in proofs):
        return None  # reweighting does not explain it
    if not proofs and not all(d.epsilon <= 3 * max(_distortion(x), _distortion(y)) for x, y, d in uneven):
        return None
    side = left if _distortion(left) >= _distortion(right) else right
    counts = weights.label_counts(side) or ()
    evidence = [
        f"micro-batches hold {min(counts)} to {max(counts)} labels: some count up to {worst:.0%} too much or too "
        f"little (max |N/(G·n)−1| = {worst:.3g})",
    ]
    if proofs:
        evidence.append(
            f"weighed by their labels, the two agree: ε {max(p for p, _ in proofs):.1g} instead of "
            f"{max(d.epsilon for _, d in proofs):.2g}"
        )
    evidence.extend(
        _trainer(a) or _site(a, _loss_function(left), "sum the losses and divide by the labels of the step")
    )
    return Cause(
        kind="mean of means",
        because="the loss is a mean of micro-batch means over unequal numbers of labels",
        evidence=tuple(evidence),
    )


def _distortion(step: Step) -> float:
    return weights.distortion(weights.label_counts(step) or ())


def _loss_function(step: Step) -> str:
    return next((call.function for m in step.micro for call in m.calls if call.reduction == "mean"), "")


def _trainer(trace: Trace) -> tuple[str, ...]:
    if trace.trainer is None or trace.trainer["accepts_loss_kwargs"]:
        return ()
    return (
        f"{trace.trainer['model']}.forward takes no **kwargs: Trainer's num_items_in_batch does not reach its loss; "
        "accept it and divide by it",
    )


def _contrastive(a: Trace, b: Trace, off: Sequence[Difference], limit: float) -> Cause | None:
    """A loss whose classes are the other samples of the batch."""
    for d in off:
        left, right = _classes(a.steps[d.step]), _classes(b.steps[d.step])
        if (
            left
            and right
            and left != right
            and _follows_batch(a.steps[d.step])
            and _follows_batch(b.steps[d.step])
        ):
            return Cause(
                kind="in-batch negatives",
                because=f"the loss picks among the samples of the micro-batch: {max(left)} candidates against "
                f"{max(right)}",
                evidence=_site(
                    a, _loss_function(a.steps[d.step]), "in-batch negatives are another task in another batch"
                ),
            )
    return None


def _classes(step: Step) -> frozenset[int]:
    return frozenset(call.classes for m in step.micro for call in m.calls if call.classes)


def _follows_batch(step: Step) -> bool:
    return any(
        call.classes is not None and call.classes == call.labels for m in step.micro for call in m.calls
    )


def _batch_norm(a: Trace, b: Trace, off: Sequence[Difference], limit: float) -> Cause | None:
    layers = max(a.normed, b.normed)
    if not layers or a.micro_batch == b.micro_batch:
        return None
    return Cause(
        kind="BatchNorm",
        because=f"BatchNorm in training mode ({layers} layers) normalises over the batch: {a.micro_batch} against "
        f"{b.micro_batch} samples",
        evidence=(
            "freeze it (module.eval()), or use GroupNorm or LayerNorm, to make the batch free to choose",
        ),
    )


def _coupled(a: Trace, b: Trace, off: Sequence[Difference], limit: float) -> Cause | None:
    """The loss of a batch is not the mean of the losses of its parts."""
    known = namings((a.steps, b.steps))
    for d in off:
        found = _not_additive(a.steps[d.step], b.steps[d.step], known)
        if found is not None:
            together, apart, size = found
            return Cause(
                kind="coupled",
                because="the loss sees the whole micro-batch: it is not the mean of the losses of its samples",
                evidence=(
                    f"step {d.step + 1}: {size} samples together have a loss of {together:.5g}, the same apart "
                    f"{apart:.5g}",
                    "a term over the batch (balancing, contrast, covariance) is another one in another micro-batch",
                ),
            )
    return None


def _not_additive(a: Step, b: Step, known: Mapping[str, Naming]) -> tuple[float, float, int] | None:
    match = matching(a, b, known)
    if match is None or a.ranks != 1:
        return None
    small, large = (a, b) if len(a.micro) >= len(b.micro) else (b, a)
    slot, how = match
    for whole in large.micro:
        samples = names_of([whole], slot, known[slot], how)
        parts: list[MicroBatch] = []
        for part in small.micro:
            inside = names_of([part], slot, known[slot], how)
            if inside and inside <= samples:
                parts.append(part)
        held = names_of(parts, slot, known[slot], how)
        if len(parts) < 2 or held != samples or whole.loss is None:
            continue
        apart = math.fsum(p.loss for p in parts if p.loss is not None)
        if abs(whole.loss - apart) > _ADDITIVE * max(abs(whole.loss), abs(apart)):
            return whole.loss, apart, sum(samples.values())
    return None


def _tensors(a: Trace, b: Trace, off: Sequence[Difference], limit: float) -> Cause | None:
    """Only some tensors differ: a layer detached, frozen, tied or replaced."""
    count = len(a.parameters)
    if count < 2 or len(off[0].tensors) != count:
        return None
    wrong = {n for d in off for n, e in enumerate(d.tensors) if e > max(30 * limit, 1e-3)}
    right = [n for n in range(count) if n not in wrong]
    if not wrong or not right or len(wrong) > 0.7 * count:
        return None
    names = [a.parameters[n][0] for n in sorted(wrong)]
    some = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    lost = [n for n in sorted(wrong) if _without(b, n) and not _without(a, n)]
    what = "have no gradient any more" if lost and len(lost) == len(wrong) else "have other gradients"
    return Cause(
        kind="tensors",
        because=f"{some} {what}; the other {len(right)} tensors agree",
    )


def _without(trace: Trace, number: int) -> bool:
    width = trace.width
    return all(
        number in s.missing or not any(s.sketch[number * width : (number + 1) * width]) for s in trace.steps
    )


def where_it_differs(trace: Trace, worst: Difference) -> tuple[str, ...]:
    """The tensors that differ most."""
    if len(worst.tensors) != len(trace.parameters):
        return ()
    ranked = sorted(range(len(worst.tensors)), key=lambda n: -worst.tensors[n])[:3]
    told = ", ".join(f"{trace.parameters[n][0]} ({worst.tensors[n]:.2g})" for n in ranked)
    return (f"most in step {worst.step + 1}: {told}",)
