"""Micro-batch and accumulation from recorded micro-steps: the cases that backwards alone get wrong."""

from __future__ import annotations

import pytest

from upshift.inject.upshift_agent.events import PHASES
from upshift.measure.batch import Batch, observe
from upshift.measure.iterations import Iteration, Micro


def micro(**fields: object) -> Micro:
    values: dict = {
        "batch": None,
        "total": None,
        "calls": 1,
        "loaded": None,
        "fetches": 0,
        "tokens": None,
        "padded": None,
        "length": None,
        "longest": None,
        "inside": False,
    }
    values.update(fields)
    if values["total"] is None:
        values["total"] = values["batch"]
    return Micro(**values)


def iteration(*groups: list[Micro]) -> Iteration:
    return Iteration(
        end=0.0,
        phases=(0.0,) * len(PHASES),
        nograd=None,
        evaluates=False,
        evaluation=0.0,
        groups=tuple(map(tuple, groups)),
        optimizers=("SGD#0",),
        skipped=False,
        device="cpu",
    )


def seen(*groups: list[Micro]) -> Batch:
    used = [iteration(*groups)] * 3
    return observe(used, used)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        pytest.param([[micro(batch=6, loaded=6, fetches=1)] * 5], (6, 5), id="plain accumulation"),
        pytest.param([[micro(batch=6)] * 5], (6, 5), id="no loader"),
        pytest.param(
            [[micro(batch=3, loaded=12, fetches=4), *[micro(batch=3)] * 3]],
            (3, 4),
            id="all batches fetched first, as the HF Trainer does",
        ),
        pytest.param(
            [[micro(batch=6, loaded=24, fetches=1), *[micro(batch=6)] * 3]],
            (6, 4),
            id="one delivery cut into chunks",
        ),
        pytest.param(
            [[micro(batch=18, loaded=18, fetches=1), micro(batch=18)], [micro(batch=18)]],
            (18, 1),
            id="GAN: two backwards for D, one for G",
        ),
        pytest.param(
            [[micro(batch=16, loaded=16, fetches=1), micro(batch=16)]],
            (16, 1),
            id="sharpness-aware: the same batch twice",
        ),
        pytest.param(
            [[micro(batch=1, total=8, calls=8, loaded=8, fetches=1)]], (8, 1), id="called once per sample"
        ),
        pytest.param([[micro(batch=128, loaded=64, fetches=1)]], (64, 1), id="two views of each sample"),
        pytest.param([[micro(batch=96, loaded=1, fetches=1)]], (96, 1), id="a loader of whole batches"),
        pytest.param(
            [[micro(loaded=10, fetches=1)] * 2], (10, 2), id="the model was not seen, the loader was"
        ),
        pytest.param([[micro(batch=40, inside=True)]], (40, 1), id="closure"),
        pytest.param([[]], (None, None), id="no backward at all"),
    ],
)
def test_reading(groups: list[list[Micro]], expected: tuple[int | None, int | None]) -> None:
    batch = seen(*groups)
    assert (batch.micro_batch, batch.grad_accum) == expected


def test_deliveries_cut_across_steps() -> None:
    """A loader hands out four micro-batches of five at a time, and a step takes three."""
    deliveries = [micro(batch=5, loaded=20, fetches=1), *[micro(batch=5)] * 3] * 6
    used = [iteration(deliveries[i : i + 3]) for i in range(0, len(deliveries), 3)]
    batch = observe(used, used)
    assert (batch.micro_batch, batch.grad_accum) == (5, 3)


def test_padding_is_of_the_rows_where_it_was_counted() -> None:
    batch = seen([micro(batch=2, tokens=20, padded=5), micro(batch=2, tokens=20, padded=None)])
    assert batch.padding_share == 0.25
    assert batch.tokens == 40


def test_not_measured_is_none() -> None:
    batch = seen([micro(batch=2)])
    assert batch.tokens is None
    assert batch.padding_share is None
