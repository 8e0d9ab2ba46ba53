"""Sketches are linear and tell sizes; sample hashes do not see padding; the walk keeps what must stay."""

from __future__ import annotations

import pytest
import torch

from upshift.inject.upshift_agent.levers.walk import Walk
from upshift.inject.upshift_agent.probes.witness import sketch as sketching
from upshift.inject.upshift_agent.probes.witness.samples import rows_of
from upshift.inject.upshift_agent.probes.witness.sketch import Sketcher, packed
from upshift.verify.compare import norm
from upshift.verify.samples import LEFT, RIGHT, WHOLE, Naming
from upshift.verify.trace import unpacked

SHAPES = ((300, 40), (7,), (1,), (64, 64, 3))


def tensors(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in SHAPES]


def test_sketches_add_up_and_tell_the_size_of_a_difference() -> None:
    a, b = tensors(1), tensors(2)
    sketcher = Sketcher(torch, a)
    one, squares = sketcher.sketch(a)
    two, _ = sketcher.sketch(b)
    both, _ = sketcher.sketch([x + 3 * y for x, y in zip(a, b, strict=True)])
    assert torch.allclose(both, one + 3 * two, rtol=1e-4, atol=1e-3)
    assert squares == pytest.approx(sum(float((x * x).sum()) for x in a), rel=1e-5)
    true = sum(float(((y - x) ** 2).sum()) for x, y in zip(a, b, strict=True)) ** 0.5
    told = norm(tuple(y - x for x, y in zip(unpacked(packed(one)), unpacked(packed(two)), strict=True)))
    assert told == pytest.approx(true, rel=0.25)


def test_a_sketch_in_chunks_is_the_same_sketch(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = Sketcher(torch, tensors(1)).sketch(tensors(1))
    missing = [*tensors(1)[:1], None, *tensors(1)[2:]]
    without, _ = Sketcher(torch, tensors(1)).sketch(missing)
    assert not torch.equal(whole, without)
    monkeypatch.setattr(sketching, "_CHUNK_CPU", 4096)
    chunked = Sketcher(torch, tensors(1))
    assert len(chunked._pieces) > 1
    assert norm(chunked.sketch(tensors(1))[0].tolist()) == pytest.approx(norm(whole.tolist()), rel=0.3)
    assert torch.equal(chunked.sketch(tensors(1))[0], chunked.sketch(tensors(1))[0])


def rows(*texts: list[int]) -> list:
    return rows_of(torch, (torch.tensor(texts),), {}, 0, len(texts))["arg0"]


def test_a_sample_keeps_its_name_when_it_is_padded() -> None:
    alone, padded = rows([5, 6, 7]), rows([5, 6, 7, 0, 0], [1, 2, 3, 4, 9])
    naming = Naming([*alone, *padded])
    assert naming.name(alone[0], RIGHT) == naming.name(padded[0], RIGHT)
    assert naming.name(alone[0], WHOLE) != naming.name(padded[0], WHOLE)
    left = rows([0, 0, 5, 6, 7], [1, 2, 3, 4, 9])
    naming = Naming([*alone, *left])
    assert naming.name(alone[0], LEFT) == naming.name(left[0], LEFT)
    assert naming.name(left[1], LEFT) != naming.name(left[0], LEFT)


def test_a_batch_without_its_last_column_is_known_by_what_it_was_cut_from() -> None:
    def inputs(*texts: list[int]) -> dict:
        return rows_of(torch, (torch.tensor(texts)[:, :-1],), {}, 0, len(texts))

    alone, padded = inputs([5, 6, 7])["arg0.base"], inputs([5, 6, 7, 0, 0], [1, 2, 3, 4, 9])["arg0.base"]
    naming = Naming([*alone, *padded])
    assert naming.name(alone[0], RIGHT) == naming.name(padded[0], RIGHT)


def test_hidden_states_and_masks_are_no_samples() -> None:
    hidden = torch.zeros(2, 3, requires_grad=True) * 1
    given = {"x": torch.ones(2, 4), "attention_mask": torch.ones(2, 4), "hidden": hidden}
    assert set(rows_of(torch, (), given, 0, 2)) == {"x"}


def test_the_walk_is_the_same_for_both_and_leaves_zeros() -> None:
    def walked() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        table = torch.nn.Parameter(torch.arange(12.0).view(4, 3))
        bias = torch.nn.Parameter(torch.zeros(3))
        walk = Walk(torch, [table, bias])
        with torch.no_grad():
            table += 1.0
        updates = [u.clone() for u in walk.updates()]
        walk.go_on(1)
        return [table.detach().clone(), bias.detach().clone()], updates

    (table, bias), updates = walked()
    assert torch.equal(updates[0], torch.ones(4, 3))
    assert not updates[1].any()
    assert table[0, 0] == 0.0  # a padding row must stay one
    assert bias.all()  # what starts at zero would hide what is behind it
    assert torch.allclose(table, torch.arange(12.0).view(4, 3), rtol=0.011)
    again, _ = walked()
    assert torch.equal(again[0], table)
    assert torch.equal(again[1], bias)
