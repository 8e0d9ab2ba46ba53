"""Differences and the noise of the run itself → one verdict, per step and never on averages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from upshift.verify import causes, mismatches
from upshift.verify.compare import Difference, compare, relative
from upshift.verify.samples import indices_of
from upshift.verify.trace import Trace

SAME, REORDERED, WITHIN_NOISE = "same", "reordered", "within_noise"
DIFFERENT, UNKNOWN = "different", "unknown"

_ROUNDING = {"torch.float64": 1e-10, "torch.float32": 1e-5, "torch.float16": 2e-2, "torch.bfloat16": 1e-1}
"""ε that rounding alone explains, by the dtype the model computes in."""
_FLOORS = 10.0
"""A difference is one if it is this many times the run's own noise."""
_NOISY = 1e-3
"""A floor above this is noise to be spoken of, not rounding."""
_HOPELESS = 0.2
"""A run that differs from itself by this much cannot be compared with anything."""
_SETTLED = 1e-7
"""In float64, a difference below this was rounding."""
_UPDATE = 0.05
"""Updates may differ by this: Adam turns rounding in gradients that are zero into steps of full length."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer."""

    kind: str
    because: str
    evidence: tuple[str, ...] = ()
    """Further sentences, the strongest first."""
    rho: float | None = None
    """Of the step that differs most."""
    epsilon: float | None = None
    """Largest over the steps that can be compared."""
    floor: float | None = None
    """The same between two runs of the setting the user has now."""
    epsilon64: float | None = None
    """In float64, where that was tried."""
    samples_equal: bool | None = None
    today: tuple[str, ...] = ()
    """What is wrong with the run as it is now."""
    steps: tuple[Difference, ...] = ()
    floors: tuple[Difference, ...] = ()
    cause: str | None = None
    """A short name of what makes the difference."""

    @property
    def same(self) -> bool:
        """May the one be used for the other?"""
        return self.kind in (SAME, REORDERED, WITHIN_NOISE)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All runs made for one question."""

    a: Trace
    b: Trace
    again: Trace | None = None
    """The present setting once more."""
    permuted: Trace | None = None
    """The present setting with the micro-batches of each step in another order."""
    a64: Trace | None = None
    b64: Trace | None = None
    notes: tuple[str, ...] = ()
    tolerance: float | None = None


def usable_floor(a: Trace, other: Trace) -> bool:
    """Does this second run differ from the first by rounding alone?"""
    found = compare(a, other)
    return bool(found) and all(
        d.samples is not False and d.epsilon <= max(_NOISY, rounding(a)) for d in found
    )


def rounding(trace: Trace) -> float:
    """ε that rounding explains in this run."""
    found = {m.dtype for s in trace.steps for m in s.micro if m.dtype}
    return max((_ROUNDING.get(d, 1e-5) for d in found), default=1e-5)


def judge(evidence: Evidence) -> Verdict:
    """The verdict on b, given a."""
    a, b = evidence.a, evidence.b
    noise = evidence.permuted or evidence.again
    floors = compare(a, noise) if noise is not None else ()
    restless = _restless(evidence)
    if restless is not None:
        return restless
    if [shape for _, shape in a.parameters] != [shape for _, shape in b.parameters]:
        return Verdict(
            kind=DIFFERENT,
            cause="parameters",
            because="the two train other parameters: " + mismatches.other_parameters(a, b),
        )
    steps = compare(a, b)
    if not steps:
        return Verdict(kind=UNKNOWN, because="no step of the two can be compared")
    facts = _Facts(evidence, steps, floors)
    if relative(a.start, b.start) > max(1e-6, rounding(a), rounding(b)) and not _nothing(a.start):
        return facts.verdict(DIFFERENT, "the two begin with other weights", cause="start")
    return _on_samples(facts)


class _Facts:
    """What the rules below share."""

    def __init__(self, evidence: Evidence, steps: Sequence[Difference], floors: Sequence[Difference]) -> None:
        self.evidence = evidence
        self.floors = tuple(floors)
        self.floor = max((d.epsilon for d in floors), default=0.0)
        self.limit = evidence.tolerance or max(rounding(evidence.a), _FLOORS * self.floor)
        # Gradients that agree are of the same samples, whatever padding has done to their hashes.
        self.steps = tuple(
            replace(d, samples=True) if d.samples is False and not self.over(d) else d for d in steps
        )
        self.comparable = tuple(d for d in self.steps if d.samples is not False)

    def floor_at(self, step: int) -> float:
        """Noise of one step: that step's own or, where it has none, the largest."""
        return next((d.epsilon for d in self.floors if d.step == step), self.floor)

    def over(self, d: Difference) -> bool:
        """Is this step's difference more than the run's own noise?"""
        if self.evidence.tolerance is not None:
            return d.epsilon > self.evidence.tolerance
        return d.epsilon > max(rounding(self.evidence.a), _FLOORS * self.floor_at(d.step))

    @property
    def worst(self) -> Difference | None:
        """The comparable step that differs most."""
        return max(self.comparable, key=lambda d: d.epsilon, default=None)

    def verdict(
        self, kind: str, because: str, evidence: Sequence[str] = (), cause: str | None = None
    ) -> Verdict:
        worst = self.worst
        told = [d.samples for d in self.steps]
        return Verdict(
            kind=kind,
            because=because,
            cause=cause,
            evidence=(*evidence, *self.evidence.notes),
            rho=worst.rho if worst else None,
            epsilon=worst.epsilon if worst else None,
            floor=self.floor if self.floors else None,
            epsilon64=self.epsilon64,
            samples_equal=False if False in told else True if True in told else None,
            steps=self.steps,
            floors=self.floors,
        )

    @property
    def epsilon64(self) -> float | None:
        """ε in float64 over the comparable steps, where both sides were run in it."""
        if self.evidence.a64 is None or self.evidence.b64 is None:
            return None
        found = [d.epsilon for d in compare(self.evidence.a64, self.evidence.b64) if d.samples is not False]
        return max(found, default=None)


def _restless(evidence: Evidence) -> Verdict | None:
    """The run differs from itself: nothing can be said of two."""
    if evidence.again is None:
        return None
    found = compare(evidence.a, evidence.again)
    worst = max((d.epsilon for d in found), default=math.inf)
    moved = relative(evidence.a.start, evidence.again.start) > 1e-6
    other = any(d.samples is False for d in found)
    if worst <= _HOPELESS and not moved and not other:
        return None
    what = "begins with other weights" if moved else "draws other samples" if other else "has other gradients"
    return Verdict(
        kind=UNKNOWN,
        cause="non-determinism",
        because=f"the run as it is differs from itself: a second time it {what}, with everything seeded",
        evidence=(f"two runs of the present setting: ε up to {worst:.2g}",),
        floor=worst,
        floors=found,
        samples_equal=False if other else None,
    )


def _on_samples(facts: _Facts) -> Verdict:
    """First what was trained on, then how."""
    a, b = facts.evidence.a, facts.evidence.b
    odd = [d for d in facts.steps if d.samples is False]
    if not odd:
        return _on_gradients(facts)
    on_rest = _on_gradients(facts) if facts.comparable else None
    if on_rest is not None and on_rest.kind in (DIFFERENT, UNKNOWN):
        return on_rest
    first = odd[0].step + 1
    danger = causes.hazard(a, b)
    if danger is not None:
        return facts.verdict(DIFFERENT, danger.because, danger.evidence, cause=danger.kind)
    if all(d.indices for d in odd):
        if a.draws or b.draws:
            parts = " and ".join(sorted(a.draws | b.draws))
            return facts.verdict(
                REORDERED,
                f"the same samples, other random numbers: {parts} draws them batch by batch",
                ("the contents of the samples differ, so their gradients could not be compared",),
                cause="augmentation",
            )
        return facts.verdict(
            DIFFERENT,
            f"the same samples of the dataset have other contents from step {first} on",
            cause="contents",
        )
    partial = mismatches.partial_window(a, b, odd)
    if partial is not None:
        return facts.verdict(DIFFERENT, partial, cause="partial window")
    sizes = mismatches.effective_batches(a, b)
    if sizes is not None:
        return facts.verdict(DIFFERENT, sizes, cause="effective batch")
    if _another_order(a, b, len(facts.steps)):
        proof = (
            "the steps that hold the same samples have the same gradients"
            if on_rest
            else "no step holds the same samples, so gradients could not be compared",
        )
        return facts.verdict(
            REORDERED, f"the same samples in another order from step {first} on", proof, cause="order"
        )
    return facts.verdict(DIFFERENT, f"other samples from step {first} on", cause="samples")


def _another_order(a: Trace, b: Trace, count: int) -> bool:
    """Both sides draw without repeating from the same dataset, or have drawn the same in all."""
    left = sum((indices_of(s) for s in a.steps[:count]), start=indices_of(a.steps[0]).__class__())
    right = sum((indices_of(s) for s in b.steps[:count]), start=left.__class__())
    if not left or not right:
        return False
    once = max(left.values()) == 1 and max(right.values()) == 1
    return left == right or (once and a.loader_samples == b.loader_samples)


def _on_gradients(facts: _Facts) -> Verdict:
    """The steps that hold the same samples: is their mathematics the same?"""
    a, b = facts.evidence.a, facts.evidence.b
    worst = facts.worst
    assert worst is not None
    finer = {m.dtype for s in a.steps for m in s.micro} | {m.dtype for s in b.steps for m in s.micro}
    known = _precision(a), _precision(b)
    if all(known) and known[0] != known[1]:
        return _on_precision(facts, finer)
    off = [d for d in facts.comparable if facts.over(d)]
    if off and facts.epsilon64 is not None and facts.epsilon64 <= _SETTLED:
        return facts.verdict(
            SAME,
            f"the gradients differ by rounding: ε {worst.epsilon:.1g} as it runs, {facts.epsilon64:.0e} in float64",
        )
    if off:
        return _different(facts, off)
    rates = [d for d in facts.comparable if not d.rates_equal]
    if rates:
        why = mismatches.schedule(a, b, rates[0].step)
        return facts.verdict(DIFFERENT, why, cause="schedule")
    update = _on_updates(facts)
    if update is not None:
        return update
    clips = causes.clipping(a, b)
    if clips is not None and a.grad_accum != b.grad_accum:
        return facts.verdict(DIFFERENT, clips, cause="clipping")
    if all(d.identical for d in facts.comparable):
        return facts.verdict(SAME, "every gradient and update is the same to the last bit")
    if facts.floor > _NOISY:
        return facts.verdict(
            WITHIN_NOISE,
            f"gradients differ by ε {worst.epsilon:.2g}, the run from itself by {facts.floor:.2g} when its "
            "micro-batches change places",
        )
    within = (
        "rounding" if facts.evidence.tolerance is None else f"the tolerance of {facts.evidence.tolerance:g}"
    )
    return facts.verdict(
        SAME,
        f"the gradients of all {len(facts.comparable)} steps agree within {within}: ε {worst.epsilon:.1g}",
    )


def _precision(trace: Trace) -> frozenset[str]:
    """Empty where it was not seen: in one compiled graph of model and loss nothing is."""
    return frozenset(m.dtype for s in trace.steps for m in s.micro if m.dtype)


def _on_precision(facts: _Facts, dtypes: set[str | None]) -> Verdict:
    """The two compute in different dtypes: same up to that dtype's rounding, in every tensor?"""
    worst = facts.worst
    assert worst is not None
    allowed = max((_ROUNDING.get(d or "", 1e-5) for d in dtypes), default=1e-5)
    names = " and ".join(sorted(d.removeprefix("torch.") for d in dtypes if d))
    tensor = max((e for d in facts.comparable for e in d.tensors), default=0.0)
    if worst.epsilon <= allowed and tensor <= max(0.5, 4 * allowed):
        return facts.verdict(
            WITHIN_NOISE,
            f"precision: {names}; gradients differ by ε {worst.epsilon:.2g} at most, ρ {worst.rho:.4f}, "
            f"which rounding to that precision explains",
            cause="precision",
        )
    return _different(facts, [d for d in facts.comparable if d.epsilon > allowed] or [worst])


def _on_updates(facts: _Facts) -> Verdict | None:
    """Equal gradients and rates, and yet other updates: the optimizer is another, or clips otherwise."""
    floors = {d.step: d.update_epsilon or 0.0 for d in facts.floors}
    largest = max(floors.values(), default=0.0)
    off = [
        d
        for d in facts.comparable
        if d.update_epsilon is not None
        and d.update_epsilon
        > max(_UPDATE, facts.evidence.tolerance or 0.0, 4 * max(floors.get(d.step, largest), largest))
    ]
    if not off:
        return None
    if facts.evidence.a64 is not None and facts.evidence.b64 is not None:
        exact = compare(facts.evidence.a64, facts.evidence.b64)
        if all((d.update_epsilon or 0.0) <= 1e-3 for d in exact if d.samples is not False):
            return None
    a, b = facts.evidence.a, facts.evidence.b
    why = (
        causes.clipping(a, b)
        or "the gradients are the same and the updates are not: the optimizer is set otherwise"
    )
    return facts.verdict(
        DIFFERENT, why, (f"updates differ by {max(d.update_epsilon or 0 for d in off):.2g}",), cause="update"
    )


def _different(facts: _Facts, off: Sequence[Difference]) -> Verdict:
    """More than noise: name the cause."""
    a, b = facts.evidence.a, facts.evidence.b
    named = causes.name(a, b, off, facts.limit)
    if named is not None:
        return facts.verdict(DIFFERENT, named.because, named.evidence, cause=named.kind)
    if any(m.drawn for s in (*a.steps, *b.steps) for m in s.micro):
        return facts.verdict(
            UNKNOWN,
            "the model draws random numbers of its own in its forward, and other ones in another micro-batch",
            cause="random model",
        )
    worst = max(off, key=lambda d: d.epsilon)
    return facts.verdict(
        DIFFERENT,
        f"the gradients differ by ε {worst.epsilon:.2g}, the run from itself by {facts.floor:.1g}; "
        "no cause that upshift knows explains it",
        causes.where_it_differs(a, worst),
        cause="unexplained",
    )


def in_doubt(verdict: Verdict) -> bool:
    """Would float64 settle it?"""
    unsure = verdict.cause in ("unexplained", "update", "tensors", "coupled")
    return unsure and verdict.epsilon64 is None and (verdict.epsilon or 0.0) < 0.5


def _nothing(vector: Sequence[float]) -> bool:
    return not any(vector)
