"""What tuning must not fall for, in real trainings with a planted truth (programs/tune/trap.py).

Limits and schedules in micro-batches, caches, files read twice and late starts are in test_tune.py; the same rules
are played without processes in search/test_tuner.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from upshift_cli import upshift

pytestmark = [pytest.mark.timed, pytest.mark.slow]

PROGRAM = Path(__file__).parent / "programs" / "tune" / "trap.py"


def tune(folder: Path, trap: str, *flags: str, only: str = "micro_batch", plan: str = "conservative") -> dict:
    (folder / "train.py").write_text(PROGRAM.read_text())
    run = upshift(
        *("tune", "--json", "-", "--only", only, "--plan", plan, "--budget", "3m", "--"),
        *(sys.executable, "train.py", "--trap", trap, *flags),
        cwd=folder,
        timeout=400,
    )
    assert run.code == 0, run.stderr
    return run.document


def left_alone(found: dict, because: str) -> bool:
    return not found["settings"] and any(because in r["why"] for r in found["rejected"])


def places(found: dict) -> list[str]:
    return [s["binding"] for s in found["settings"]]


def test_a_flag_that_is_parsed_and_never_used(tmp_path: Path) -> None:
    found = tune(tmp_path, "never_used", "--batch-size", "2")
    assert left_alone(found, "stayed what it was"), found["rejected"]


def test_two_flags_of_which_one_is_dead(tmp_path: Path) -> None:
    found = tune(tmp_path, "two_flags", "--batch-size", "2", "--train-batch-size", "2")
    assert places(found) == ["--train-batch-size", "--accumulation"]
    assert found["best"]["effective_batch"] == 16
    assert "--batch-size 2" in " ".join(found["applied"]["command"])  # the dead one stays as it is


def test_a_batch_that_is_asserted(tmp_path: Path) -> None:
    found = tune(tmp_path, "batch_asserted")
    assert left_alone(found, "this model wants a batch of two"), found["rejected"]


def test_batch_times_accumulation_that_is_asserted(tmp_path: Path) -> None:
    found = tune(tmp_path, "product_asserted")
    assert found["best"]["micro_batch"] >= 8
    assert found["best"]["effective_batch"] == 16


def test_a_bigger_batch_that_is_slower(tmp_path: Path) -> None:
    found = tune(tmp_path, "slower")
    assert left_alone(found, "no other micro-batch is faster"), found


def test_a_run_that_waits_for_its_loader(tmp_path: Path) -> None:
    found = tune(tmp_path, "waiting", only="micro_batch,workers")
    assert places(found) == ["--workers"], found
    assert any("the loader comes first" in r["why"] for r in found["rejected"])


def test_folklore_that_is_slower_here(tmp_path: Path) -> None:
    found = tune(tmp_path, "folklore", only="precision,compile", plan="balanced")
    assert not found["settings"], found
    tried = [t["settings"] for t in found["trials"]]
    assert {"precision": True} in tried and {"compile": True} in tried


def test_a_step_with_no_divisor_but_itself(tmp_path: Path) -> None:
    found = tune(tmp_path, "prime", "--batch-size", "1", "--accumulation", "13")
    assert found["best"]["micro_batch"] == 13
    assert {t["micro_batch"] for t in found["trials"]} == {1, 13}


def test_accumulation_that_follows_from_tokens(tmp_path: Path) -> None:
    found = tune(tmp_path, "tokens")
    assert places(found) == ["--batch-size"]
    assert found["best"]["effective_batch"] == 16


def test_two_files_of_which_one_is_dead(tmp_path: Path) -> None:
    for name in ("old.yaml", "new.yaml"):
        (tmp_path / name).write_text("batch_size: 2\ngrad_accum: 8\n")
    found = tune(tmp_path, "two_files")
    assert places(found) == ["new.yaml:batch_size", "new.yaml:grad_accum"]
    assert (tmp_path / "old.yaml").read_text() == "batch_size: 2\ngrad_accum: 8\n"


def test_noise_in_which_nothing_can_be_claimed(tmp_path: Path) -> None:
    found = tune(tmp_path, "noisy")
    assert not found["settings"], found["speedup"]
    assert found["rejected"]
