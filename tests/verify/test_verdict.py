"""Verdicts from made-up traces: each rule by itself, with numbers that can be checked by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from upshift.verify.today import loss_scale, wrong_today
from upshift.verify.trace import LossCall, MicroBatch, Step, Trace
from upshift.verify.verdict import Evidence, judge
from upshift.verify.weights import distortion, reweighted

WIDTH = 8
NAMES = (("a", (4,)), ("b", (4,)), ("c", (4,)))


def vector(seed: int) -> tuple[float, ...]:
    rng = random.Random(seed)
    return tuple(rng.gauss(0, 1) for _ in range(WIDTH * len(NAMES)))


def micro(samples: Sequence[int], labels: int = 10, loss: float = 1.0, **more: object) -> MicroBatch:
    call = LossCall(function="cross_entropy", reduction="mean", labels=labels, classes=50, value=2.0)
    made = MicroBatch(
        loss=loss,
        calls=(call,),
        samples={"x": tuple((f"s{i}",) for i in samples)},
        indices=(tuple(samples),),
        drawn=False,
        dtype="torch.float32",
        batch=len(samples),
    )
    return replace(made, **more)  # type: ignore[arg-type]


def step(number: int, size: int, *, scale: float = 1.0, noise: float = 0.0, **more: object) -> Step:
    """16 samples in micro-batches of `size`; the gradient is the same for all sizes, but for scale and noise."""
    first = 16 * number
    parts = tuple(micro(range(i, i + size), loss=size / 16) for i in range(first, first + 16, size))
    error = vector(1000 * size + number)
    sketch = tuple(scale * x + noise * e for x, e in zip(vector(number), error, strict=True))
    made = Step(
        optimizer=0,
        micro=parts,
        ranks=1,
        micro_sketches=(),
        sketch=sketch,
        norm=1.0,
        norm_after=1.0,
        missing=(),
        update=sketch,
        update_norm=1.0,
        clips=0,
        scheduler_steps=1,
        rates=(0.1,),
        normed=(),
    )
    return replace(made, **more)  # type: ignore[arg-type]


def trace(size: int, steps: int = 4, **more: object) -> Trace:
    return Trace(
        steps=tuple(step(i, size, **more) for i in range(steps)),  # type: ignore[arg-type]
        parameters=NAMES,
        width=WIDTH,
        start=vector(99),
        normed=0,
        draws=frozenset(),
        trainer=None,
        sites={},
        loader_batches=64,
        loader_samples=256,
        cost=0.0,
    )


NOW, PERMUTED = trace(4), trace(4, noise=1e-7)


def asked(b: Trace, **more: object):
    return judge(Evidence(a=NOW, b=b, permuted=PERMUTED, **more))  # type: ignore[arg-type]


def test_the_same_to_the_last_bit_and_within_rounding() -> None:
    assert "last bit" in asked(trace(8)).because
    assert asked(trace(8, noise=3e-7)).kind == "same"


def test_float64_settles_a_doubt() -> None:
    doubtful = trace(8, noise=1e-3)
    assert asked(doubtful).kind == "different"
    settled = asked(doubtful, a64=trace(4), b64=trace(8, noise=1e-14))
    assert settled.kind == "same"
    assert "float64" in settled.because
    assert asked(doubtful, a64=trace(4), b64=trace(8, noise=1e-3)).kind == "different"


@pytest.mark.parametrize(("scale", "words"), [(0.5, "not divided"), (2.0, "twice")])
def test_a_factor_of_the_accumulation_names_its_cause(scale: float, words: str) -> None:
    found = asked(trace(8, scale=scale))  # 4 × 4 against 8 × 2: the accumulation is halved
    assert (found.kind, found.cause) == ("different", "loss scale")
    assert words in found.because
    assert found.rho == pytest.approx(scale)


def test_one_step_is_enough_to_be_different() -> None:
    b = trace(8)
    odd = replace(b.steps[2], sketch=vector(77))
    assert asked(replace(b, steps=(*b.steps[:2], odd, b.steps[3]))).kind == "different"


def test_a_lost_gradient_names_its_tensor() -> None:
    def cut(s: Step) -> Step:
        return replace(s, sketch=(*s.sketch[:WIDTH], *([0.0] * WIDTH), *s.sketch[2 * WIDTH :]))

    b = trace(4)
    found = asked(replace(b, steps=tuple(cut(s) for s in b.steps)))
    assert found.cause == "tensors"
    assert found.because.startswith("b have no gradient")


def test_batch_norm_is_blamed_only_when_the_batch_changes() -> None:
    different = trace(8, noise=0.3)
    assert asked(replace(different, normed=3)).cause == "BatchNorm"
    assert asked(replace(trace(4, noise=0.3), normed=3)).cause != "BatchNorm"


def test_other_learning_rates() -> None:
    b = trace(8)
    faster = tuple(replace(s, rates=(0.2,), scheduler_steps=2) for s in b.steps)
    found = asked(replace(b, steps=faster))
    assert found.cause == "schedule"
    assert "every micro-batch" in found.because


def test_another_order_and_other_samples() -> None:
    b = trace(8)
    turned = tuple(reversed(b.steps))
    found = asked(replace(b, steps=turned))
    assert found.kind == "reordered"
    assert found.samples_equal is False
    other = tuple(step(i + 100, 8) for i in range(4))
    assert asked(replace(b, steps=other, loader_samples=999)).kind == "different"


def test_a_run_that_differs_from_itself_says_nothing_of_others() -> None:
    found = judge(Evidence(a=NOW, b=trace(8), again=trace(4, noise=0.5)))
    assert found.kind == "unknown"
    assert "differs from itself" in found.because


def test_a_noisy_run_is_the_same_within_its_noise() -> None:
    found = judge(Evidence(a=NOW, b=trace(8, noise=0.02), permuted=trace(4, noise=0.01)))
    assert found.kind == "within_noise"


def test_reweighting_and_distortion() -> None:
    assert distortion([10, 10]) == 0.0
    assert distortion([5, 15]) == pytest.approx(1.0)
    one, two = vector(1), vector(2)
    made = replace(
        step(0, 8),
        micro=(micro([0], labels=5), micro([1], labels=15)),
        micro_sketches=(one, tuple(x + y for x, y in zip(one, two, strict=True))),
    )
    expected = tuple(0.5 * x + 1.5 * y for x, y in zip(one, two, strict=True))
    assert reweighted(made) == pytest.approx(expected)


def test_terms_of_one_loss_are_no_accumulation() -> None:
    """A discriminator: one batch from the loader, a backward for it and one for as many made-up samples."""
    real, fake = micro(range(8), loss=2.0), micro(range(8), loss=2.0, indices=())
    made = [replace(step(n, 8), micro=(real, fake)) for n in range(6)]
    assert wrong_today(replace(trace(8), steps=tuple(made))) == ()
    both = [replace(step(n, 8), micro=(real, replace(fake, indices=real.indices))) for n in range(6)]
    assert "not divided" in wrong_today(replace(trace(8), steps=tuple(both)))[0]


def test_today_is_told_from_the_losses() -> None:
    """backward is called on loss / 4 of a mean of 2.0, in 4 micro-batches: right. On the mean itself: 4 times."""

    def with_loss(value: float) -> Trace:
        steps = tuple(replace(s, micro=tuple(replace(m, loss=value) for m in s.micro)) for s in NOW.steps)
        return replace(NOW, steps=steps)

    assert loss_scale(with_loss(0.5)) == pytest.approx(1.0)
    assert wrong_today(with_loss(0.5)) == ()
    assert "not divided" in wrong_today(with_loss(2.0))[0]
    assert "twice" in wrong_today(with_loss(0.125))[0]


def test_labels_do_not_make_the_same_samples() -> None:
    """Texts of b begin one sample later, with as many of each label: other samples, however alike the gradients."""

    def labelled(trace: Trace, shift: int) -> Trace:
        def put(m: MicroBatch) -> MicroBatch:
            (indices,) = m.indices
            moved = tuple(i + shift for i in indices)
            rows = {"ids": tuple((f"s{i}",) for i in moved), "labels": tuple((str(i % 2),) for i in moved)}
            return replace(m, samples=rows, indices=(moved,))

        steps = tuple(replace(s, micro=tuple(put(m) for m in s.micro)) for s in trace.steps)
        return replace(trace, steps=steps)

    a, b = labelled(trace(4), 0), labelled(trace(2, noise=0.01), 2)
    verdict = judge(Evidence(a=a, b=b, permuted=trace(4, noise=1e-7)))
    assert verdict.samples_equal is False
    assert verdict.cause != "unexplained"
