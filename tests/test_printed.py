"""Validation losses as programs print them."""

from __future__ import annotations

import pytest

from upshift.real_runs import printed_validation


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("step 250: train loss 2.1, val loss 1.9321", 1.9321),
        ("{'eval_loss': 3.25, 'eval_runtime': 2.1}", 3.25),
        ("Epoch 3 | validation_loss=0.75", 0.75),
        ("valid/loss: 1.2e-3", 1.2e-3),
        ("| end of epoch 1 | valid loss  5.41 | valid ppl 223.6", 5.41),
        ("train loss 2.0 step 4", None),
    ],
)
def test_the_last_validation_loss(line: str, value: float | None) -> None:
    assert printed_validation(f"val loss 9.9\n{line}\n" if value else line) == value
