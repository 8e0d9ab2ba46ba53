"""The experiments' parts, on real tensors."""

from __future__ import annotations

import collections

import pytest

torch = pytest.importorskip("torch")

from upshift.inject.upshift_agent import experiments  # noqa: E402
from upshift.inject.upshift_agent.experiments import calls, ceiling, optimizers  # noqa: E402


def test_inputs_of_different_lengths_are_filled_up() -> None:
    Batch = collections.namedtuple("Batch", "ids words")
    inputs = [
        ((Batch(torch.ones(1, n, dtype=torch.long), ["a"]), n), {"mask": torch.ones(1, n), "flag": True})
        for n in (3, 5)
    ]
    (batch, longest), kwargs = calls._joined(torch, inputs)
    assert batch.ids.shape == (2, 5)
    assert batch.ids[0].tolist() == [1, 1, 1, 0, 0]
    assert batch.words == ["a", "a"]
    assert longest == 5
    assert kwargs["mask"].shape == (2, 5)
    assert kwargs["flag"] is True


def test_a_bench_leaves_gradients_as_they_were() -> None:
    model = torch.nn.Linear(4, 2)
    model.weight.grad = torch.full_like(model.weight, 7.0)
    bench = calls._Bench(torch, [(model, (torch.randn(1, 4),), {})] * 3, None)
    bench.separate()
    bench.join()
    bench.together()
    assert not torch.equal(model.weight.grad, torch.full_like(model.weight, 7.0))
    bench.restore()
    assert torch.equal(model.weight.grad, torch.full_like(model.weight, 7.0))
    assert model.bias.grad is None


def test_a_model_that_returns_its_own_loss() -> None:
    output = collections.OrderedDict(loss=torch.tensor(2.0, requires_grad=True), logits=torch.ones(3))
    output_type = type("Output", (dict,), {"loss": property(lambda self: self["loss"])})
    assert calls._sum(torch, output_type(output)).item() == 2.0


def test_variants_are_run_in_turn_and_failures_left_out() -> None:
    ran: list[str] = []

    def broken() -> None:
        raise MemoryError("too big")

    result = experiments.quickest(
        {"a": lambda: ran.append("a"), "b": broken, "c": lambda: ran.append("c")}, 0.0, most=4
    )
    assert set(result["seconds"]) >= {"a"}
    assert "too big" in result["errors"]["b"]


def test_operations_of_a_linear_layer() -> None:
    model = torch.nn.Linear(32, 16, bias=False)
    x = torch.randn(8, 32)
    with ceiling._counter(torch) as counter:
        model(x).sum().backward()
    forward = 2 * 8 * 32 * 16
    assert counter.flops == 2 * forward  # forward, and the weight's gradient; the input needs none
    assert counter.dtypes == {"float32": 2 * forward}


def test_operations_of_a_recurrent_layer() -> None:
    model = torch.nn.LSTM(8, 16, batch_first=True)
    x = torch.randn(2, 5, 8)
    with ceiling._counter(torch) as counter:
        model(x)[0].sum().backward()
    forward = 2 * 2 * 5 * (4 * 16 * 8 + 4 * 16 * 16)
    assert counter.flops == pytest.approx(3 * forward, rel=0.35)


def test_the_optimizer_is_set_back() -> None:
    parameter = torch.nn.Parameter(torch.ones(4))
    parameter.grad = torch.ones(4)
    optimizer = torch.optim.Adam([parameter], foreach=False)
    optimizers._with(optimizer, {"foreach": False, "fused": True}, lambda: None)()
    assert optimizer.param_groups[0]["fused"] is None
    assert optimizer.param_groups[0]["foreach"] is False
    assert not torch.equal(parameter, torch.ones(4))
