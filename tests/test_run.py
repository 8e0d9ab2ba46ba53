"""`upshift run --tuned`: the user's command, with the levers that were found to pay."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from upshift.apply import apply
from upshift.command import understand
from upshift.knobs.binding import Lever
from upshift.knobs.change import Change
from upshift.tuning import Launching, Runs

IMAGES = Path(__file__).parent / "programs" / "tune" / "images.py"


def now(folder: Path, *argv: str) -> Change:
    return Change(command=understand([sys.executable, str(IMAGES), *argv], folder))


def run(*argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "upshift", "run", *argv], cwd=cwd, capture_output=True, text=True
    )


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
