"""`upshift run --tuned`: the user's command, with the levers that were found to pay."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from upshift.apply import apply
from upshift.command import understand
from upshift.knobs.binding import Lever
from upshift.knobs.change import Change
from upshift.real_runs import Launching, Runs

IMAGES = Path(__file__).parent / "programs" / "tune" / "images.py"
SENTENCES = Path(__file__).parent / "programs" / "tune" / "sentences.py"
MATMULS = Path(__file__).parent / "programs" / "tune" / "matmuls.py"
RANKS = Path(__file__).parent / "programs" / "tune" / "ranks.py"


def now(folder: Path, *argv: str, program: Path = IMAGES) -> Change:
    return Change(command=understand([sys.executable, str(program), *argv], folder))


def run(*argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "upshift", "run", *argv], cwd=cwd, capture_output=True, text=True
    )


def spoken(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """What a program says of itself: names and values in turn."""
    return dict(zip(*[iter(done.stdout.split())] * 2, strict=True))


def test_the_lever_acts_and_the_exit_code_is_the_programs(tmp_path: Path) -> None:
    plain = now(tmp_path, "--steps", "3", "--exit", "7")
    applied = apply(plain, Lever("channels_last").apply(plain, True))
    assert applied.command[:4] == ("upshift", "run", "--tuned", "--")
    assert applied.command[4:] == plain.command.argv
    assert applied.files == (tmp_path / ".upshift" / "tuned.json",)
    tuned = run(*applied.command[2:], cwd=tmp_path)
    without = subprocess.run(plain.command.argv, cwd=tmp_path, capture_output=True, text=True)
    assert "channels last True" in tuned.stdout and "channels last False" in without.stdout
    assert tuned.returncode == without.returncode == 7
    losses = [float(done.stdout.split()[-1]) for done in (tuned, without)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert tuned.stderr == without.stderr


def test_ranks_exchange_once_a_step_and_stay_together(tmp_path: Path) -> None:
    plain = now(tmp_path, "--epochs", "4", program=RANKS)
    applied = apply(plain, Lever("no_sync").apply(plain, True))
    tuned = run(*applied.command[2:], cwd=tmp_path)
    without = subprocess.run(plain.command.argv, cwd=tmp_path, capture_output=True, text=True)
    said = [spoken(done) for done in (tuned, without)]
    assert [s["apart"] for s in said] == ["0.0", "0.0"], tuned.stderr
    assert float(said[0]["norm"]) == pytest.approx(float(said[1]["norm"]), rel=1e-6)
    # The first step tells how many micro-batches there are; the short steps at the ends of epochs exchange by hand.
    buckets = int(said[1]["exchanges"]) // 40
    assert int(said[0]["exchanges"]) == (4 + 1 + 3 * 2) * buckets


def test_one_exchange_a_step_is_proven_the_same_training(tmp_path: Path) -> None:
    plain = now(tmp_path, program=RANKS)
    runs = Runs(plain, Launching(), lambda text: None)
    verdict = runs.prove(Lever("no_sync").apply(plain, True), {"no_sync": True})
    assert verdict.same, verdict.because


@pytest.mark.parametrize("options", [(), ("--carry",), ("--workers", "1")], ids=" ".join)
def test_like_lengths_share_a_micro_batch_of_their_step(options: tuple[str, ...], tmp_path: Path) -> None:
    plain = now(tmp_path, "--epochs", "3", *options, program=SENTENCES)
    applied = apply(plain, Lever("length_groups").apply(plain, True))
    tuned = run(*applied.command[2:], cwd=tmp_path)
    without = subprocess.run(plain.command.argv, cwd=tmp_path, capture_output=True, text=True)
    assert tuned.returncode == without.returncode == 0, tuned.stderr
    grouped, as_it_is = spoken(tuned), spoken(without)
    assert grouped["steps"] == as_it_is["steps"], "each step has the samples it had"
    assert int(grouped["computed"]) < 0.9 * int(as_it_is["computed"])


def test_like_lengths_are_proven_the_same_training(tmp_path: Path) -> None:
    plain = now(tmp_path, program=SENTENCES)
    runs = Runs(plain, Launching(), lambda text: None)
    verdict = runs.prove(Lever("length_groups").apply(plain, True), {"length_groups": True})
    assert verdict.same, verdict.because


def carried(lever: str, folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """What the program says with the lever, and without."""
    plain = now(folder, "--steps", "6", program=MATMULS)
    applied = apply(plain, Lever(lever).apply(plain, True))
    tuned = run(*applied.command[2:], cwd=folder)
    without = subprocess.run(plain.command.argv, cwd=folder, capture_output=True, text=True)
    assert tuned.returncode == without.returncode == 0, tuned.stderr
    return spoken(tuned), spoken(without)


def test_the_model_computes_in_bfloat16_and_all_else_in_float32(tmp_path: Path) -> None:
    lower, plain = carried("autocast", tmp_path)
    assert (lower["inside"], lower["outside"]) == ("torch.bfloat16", "torch.float32")
    assert (plain["inside"], plain["outside"]) == ("torch.float32", "torch.float32")
    assert lower["copied"] == "True"
    assert lower["loss"] != plain["loss"]
    assert float(lower["loss"]) == pytest.approx(float(plain["loss"]), rel=0.02)


def test_bfloat16_is_never_called_the_same_to_rounding(tmp_path: Path) -> None:
    plain = now(tmp_path, program=MATMULS)
    runs = Runs(plain, Launching(), lambda text: None)
    verdict = runs.prove(Lever("autocast").apply(plain, True), {"autocast": True})
    assert verdict.kind == "within_noise", verdict.because


@pytest.mark.skipif(shutil.which("c++") is None, reason="inductor needs a compiler")
def test_a_model_is_compiled_in_place(tmp_path: Path) -> None:
    compiled, plain = carried("compiled", tmp_path)
    assert (compiled["compiled"], plain["compiled"]) == ("True", "False")
    assert compiled["copied"] == "True"
    assert float(compiled["loss"]) == pytest.approx(float(plain["loss"]), rel=1e-4)


def test_nothing_tuned_is_said(tmp_path: Path) -> None:
    done = run("--tuned", "--", sys.executable, str(IMAGES), cwd=tmp_path)
    assert done.returncode == 2
    assert "nothing was tuned" in done.stderr and "hint: " in done.stderr


def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    plain = now(tmp_path)
    apply(plain, Lever("channels_last").apply(plain, True))
    done = run("--tuned", "--", "./nothing-here", cwd=tmp_path)
    assert done.returncode == 2 and "nothing-here" in done.stderr


def test_another_layout_is_proven_the_same_training(tmp_path: Path) -> None:
    plain = now(tmp_path, "--steps", "1000")
    runs = Runs(plain, Launching(), lambda text: None)
    verdict = runs.prove(Lever("channels_last").apply(plain, True), {"channels_last": True})
    assert verdict.same, verdict.because
