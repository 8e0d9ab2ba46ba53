"""However upshift itself ends, nothing it started lives on and nothing is left lying about."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import alive, below
from truth import PROGRAMS
from upshift_cli import UPSHIFT, environment


def start(program: str, cwd: Path, scratch: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*UPSHIFT, "profile", "--json", "-", "--steps", "100000", "--", sys.executable, PROGRAMS / program],
        cwd=cwd,
        env=environment(UPSHIFT_SCRATCH=str(scratch)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_steps(scratch: Path, patience: float = 90.0) -> None:
    """Until an agent has written some steps."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        for events in scratch.glob("upshift-*/events/*.jsonl"):
            if events.read_text().count('"kind":"steps"') > 3:
                return
        time.sleep(0.1)
    raise AssertionError("no steps were seen")


@pytest.mark.parametrize("program", ("workers_fork.py", "fault_forks_sleeper.py", "ddp_launch"))
def test_sigkill_of_upshift_takes_everything_along(program: str, tmp_path: Path, scratch: Path) -> None:
    if program == "ddp_launch":
        command = ["-m", "torch.distributed.run", "--nproc_per_node", "2", PROGRAMS / "ddp_torchrun.py"]
    else:
        command = [PROGRAMS / program]
    upshift = subprocess.Popen(
        [*UPSHIFT, "profile", "--steps", "100000", "--", sys.executable, *command],
        cwd=tmp_path,
        env=environment(UPSHIFT_SCRATCH=str(scratch)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for_steps(scratch)
    started = below(upshift.pid)
    assert len(started) >= 2
    upshift.kill()
    upshift.wait()
    assert not alive(started)
    assert not list(scratch.iterdir())


def test_sigkill_of_upshift_and_keeper(tmp_path: Path, scratch: Path) -> None:
    upshift = start("accumulation.py", tmp_path, scratch)
    wait_for_steps(scratch)
    started = below(upshift.pid)
    for pid in (upshift.pid, started[0]):
        os.kill(pid, signal.SIGKILL)
    upshift.communicate()
    assert not alive(started, patience=15)


@pytest.mark.parametrize("number", (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
def test_a_signal_ends_it_and_keeps_what_was_measured(
    number: signal.Signals, tmp_path: Path, scratch: Path
) -> None:
    upshift = start("accumulation.py", tmp_path, scratch)
    wait_for_steps(scratch)
    started = below(upshift.pid)
    upshift.send_signal(number)
    stdout, stderr = upshift.communicate(timeout=30)
    assert upshift.returncode == 130, stderr
    assert '"micro_batch": 6' in stdout
    assert "interrupted" in stderr
    assert not alive(started)
    assert not list(scratch.iterdir())


def test_a_signal_before_the_first_step(tmp_path: Path, scratch: Path) -> None:
    upshift = start("fault_no_step.py", tmp_path, scratch)
    deadline = time.monotonic() + 60
    while not list(scratch.glob("upshift-*/events/*.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.05)
    started = below(upshift.pid)
    upshift.send_signal(signal.SIGINT)
    _, stderr = upshift.communicate(timeout=30)
    assert upshift.returncode == 130
    assert "nothing is left running" in stderr
    assert not alive(started)
