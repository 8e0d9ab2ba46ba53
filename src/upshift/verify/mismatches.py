"""What differs before any gradient is looked at: what is trained, at which rates, on how many samples a step."""

from __future__ import annotations

from collections.abc import Sequence

from upshift.verify.compare import Difference
from upshift.verify.trace import Step, Trace


def schedule(a: Trace, b: Trace, step: int) -> str:
    """Why learning rates differ."""
    rates = f"{_rate(a.steps[step])} against {_rate(b.steps[step])} in step {step + 1}"
    for trace in (a, b):
        per_step = [s.scheduler_steps for s in trace.steps[1:]]
        if per_step and max(per_step) > 1 and max(per_step) >= (trace.grad_accum or 1) > 1:
            return (
                f"the scheduler steps with every micro-batch ({max(per_step)} times a step), so the learning rate is "
                f"{rates}"
            )
    return f"the learning rate is {rates}"


def _rate(step: Step) -> str:
    return ", ".join(f"{r:.3g}" for r in step.rates[:2]) or "unknown"


def other_parameters(a: Trace, b: Trace) -> str:
    """What is trained on one side only."""
    left, right = set(a.parameters), set(b.parameters)
    gone = [n for n, _ in a.parameters if n not in {m for m, _ in b.parameters}]
    new = [n for n, _ in b.parameters if n not in {m for m, _ in a.parameters}]
    if gone or new:
        return (
            f"{len(gone)} tensors of a are missing in b, {len(new)} are new ({', '.join((gone + new)[:3])})"
        )
    changed = [n for n, _ in sorted(left ^ right)]
    return f"{len(a.parameters)} tensors against {len(b.parameters)}; shapes differ, e.g. {', '.join(changed[:2])}"


def effective_batches(a: Trace, b: Trace) -> str | None:
    """Both sides steady, and yet another number of samples a step."""
    left, right = (_usual_samples(trace) for trace in (a, b))
    return f"a step trains on {left} samples against {right}" if left != right and left and right else None


def _usual_samples(trace: Trace) -> int:
    counts = [step.samples for step in trace.steps]
    return max(set(counts), key=counts.count) if counts else 0


def partial_window(a: Trace, b: Trace, odd: Sequence[Difference]) -> str | None:
    """The first odd step is where an epoch ends with fewer samples on one side."""
    first = odd[0].step
    usual = _usual_samples(a)
    if _usual_samples(b) != usual:
        return None
    here = a.steps[first].samples, b.steps[first].samples
    if here[0] != here[1]:
        return (
            f"step {first + 1} is a partial window: {here[0]} samples against {here[1]} (whole ones {usual}), "
            "so the steps from there on hold other samples"
        )
    if first == 0:
        return None
    before = a.steps[first - 1].samples, b.steps[first - 1].samples
    if before != (usual, usual) or any(n != usual for n in here):
        return (
            f"the epoch ends with a partial window: step {first + 1} holds {here[0]} samples, and from there on the "
            "steps hold other samples"
        )
    if (
        a.loader_batches
        and b.loader_batches
        and a.loader_batches * (a.micro_batch or 1) != b.loader_batches * (b.micro_batch or 1)
    ):
        return (
            f"the last, partial batch of an epoch is left out: {a.loader_batches} batches of {a.micro_batch} against "
            f"{b.loader_batches} of {b.micro_batch}"
        )
    return None
