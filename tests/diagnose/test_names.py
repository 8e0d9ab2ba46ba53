"""The user's own word for a setting."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from upshift.command import Command, understand
from upshift.diagnose.names import names


def command(tmp_path: Path, *arguments: str) -> Command:
    (tmp_path / "train.py").touch()
    return dataclasses.replace(understand(["python", str(tmp_path / "train.py"), *arguments]), cwd=tmp_path)


def test_a_flag(tmp_path: Path) -> None:
    found = names(command(tmp_path, "--batch-size", "4", "--epochs", "4"))
    assert found.of("micro_batch", 4) == "--batch-size"


def test_the_value_has_to_agree(tmp_path: Path) -> None:
    assert names(command(tmp_path, "--batch-size", "8")).of("micro_batch", 4) is None


def test_an_evaluation_batch_is_another_setting(tmp_path: Path) -> None:
    found = names(command(tmp_path, "--per_device_eval_batch_size=4", "--per_device_train_batch_size=4"))
    assert found.of("micro_batch", 4) == "--per_device_train_batch_size"


def test_a_key_in_a_yaml_file(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("model:\n  dim: 4\ntraining:\n  batch_size: 4  # small\n  accum: 2\n")
    found = names(command(tmp_path, "--config", "c.yaml"))
    assert found.of("micro_batch", 4) == "training.batch_size in c.yaml"
    assert found.of("grad_accum", 2) == "training.accum in c.yaml"


def test_a_key_in_a_json_file(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('{"data": {"num_workers": 0}}')
    assert names(command(tmp_path, "c.json")).of("workers", 0) == "data.num_workers in c.json"


def test_a_broken_file_is_no_name(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text("{")
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe")
    assert names(command(tmp_path, "c.json", "c.yaml", "missing.yaml")).of("workers", 0) is None
