"""Arguments of calls in code: read, changed, put in where they are not; all else byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from upshift.command import understand
from upshift.errors import UsageError
from upshift.knobs.binding import InCall
from upshift.knobs.catalogue import BY_NAME, GRAD_ACCUM
from upshift.knobs.change import Change
from upshift.knobs.discover import Seen, candidates


def changed(tmp_path: Path, text: str, argument: str, value: object, number: int = 0) -> str:
    path = tmp_path / "train.py"
    path.write_text(text)
    now = Change(command=understand(["python", "train.py"], tmp_path))
    return InCall(path, "DataLoader", argument, number).apply(now, value).files[path]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = DataLoader(data)\n", "x = DataLoader(data, num_workers=2)\n"),
        ("x = DataLoader()\n", "x = DataLoader(num_workers=2)\n"),
        ("x = DataLoader(data, num_workers=0)\n", "x = DataLoader(data, num_workers=2)\n"),
        ("x = DataLoader(data, num_workers=cfg.n)\n", "x = DataLoader(data, num_workers=2)\n"),
        (
            "x = torch.utils.data.DataLoader(\n    data,\n    batch_size=8,  # samples\n)\n",
            "x = torch.utils.data.DataLoader(\n    data,\n    batch_size=8, num_workers=2,  # samples\n)\n",
        ),
        ("é = DataLoader(f('ü'), 8)\n", "é = DataLoader(f('ü'), 8, num_workers=2)\n"),
    ],
)
def test_an_argument_is_set(before: str, after: str, tmp_path: Path) -> None:
    assert changed(tmp_path, before, "num_workers", 2) == after


def test_the_second_of_two_calls(tmp_path: Path) -> None:
    text = "a = DataLoader(train)\nb = DataLoader(val)\n"
    assert (
        changed(tmp_path, text, "num_workers", 2, 1)
        == "a = DataLoader(train)\nb = DataLoader(val, num_workers=2)\n"
    )


def test_what_cannot_be_put_in_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be put"):
        changed(tmp_path, "x = DataLoader((data))\n", "num_workers", 2)


def test_the_loader_that_feeds_the_training_is_meant(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("val = DataLoader(\n    b)\ntrain = DataLoader(\n    a,\n    shuffle=True)\n")
    now = Change(command=understand(["python", "train.py"], tmp_path))
    seen = Seen(flags={}, files=(), sources=(path,), loaders=(f"{path}:5",))
    found = candidates(BY_NAME["workers"], None, now, seen)
    assert [c.where for c in found] == ["train.py:3"]
    assert "shuffle=True, num_workers=2" in found[0].binding.apply(now, 2).files[path]


def test_a_constructor_of_a_framework_takes_what_it_does_not_say(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.touch()
    now = Change(command=understand(["python", "train.py"], tmp_path))
    seen = Seen(flags={}, files=(), sources=(path,))
    path.write_text("import lightning as L\nt = L.Trainer(max_epochs=1)\n")
    assert [str(c.binding) for c in candidates(GRAD_ACCUM, 1, now, seen)] == [
        "train.py:Trainer(accumulate_grad_batches)"
    ]
    path.write_text("from transformers import Trainer\nt = Trainer(model, args)\n")
    assert candidates(GRAD_ACCUM, 1, now, seen) == []
