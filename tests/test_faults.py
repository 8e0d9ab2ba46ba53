"""Programs that misbehave: a clear word, the right exit code, nothing left running."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from processes import alive, announced
from truth import PROGRAMS
from upshift_cli import profile, upshift


def program(name: str) -> list[str]:
    return [sys.executable, str(PROGRAMS / name)]


def test_no_separator(tmp_path: Path) -> None:
    run = upshift("profile", "python", "train.py", cwd=tmp_path)
    assert run.code == 2


def test_no_command(tmp_path: Path) -> None:
    run = upshift("profile", "--", cwd=tmp_path)
    assert run.code == 2
    assert "no command" in run.stderr
    assert "hint: " in run.stderr


def test_command_not_found(tmp_path: Path) -> None:
    run = profile(["pyhton", "train.py"], cwd=tmp_path)
    assert run.code == 2
    assert "'pyhton' is not on PATH" in run.stderr


def test_script_not_found(tmp_path: Path) -> None:
    run = profile([sys.executable, "missing.py"], cwd=tmp_path)
    assert run.code == 2
    assert "'missing.py' does not exist" in run.stderr


def test_script_without_interpreter(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello')\n")
    run = profile(["./train.py"], cwd=tmp_path)
    assert run.code == 2
    assert "python ./train.py" in run.stderr


def test_file_that_cannot_be_executed_as_a_program(tmp_path: Path) -> None:
    broken = tmp_path / "train"
    broken.write_text("no interpreter line\n")
    broken.chmod(0o755)
    run = profile(["./train"], cwd=tmp_path)
    assert run.code == 2
    assert "could not be started" in run.stderr


@pytest.mark.parametrize("options", (["--steps", "0"], ["--seconds", "-1"], ["--steps", "many"]))
def test_bad_numbers(options: list[str], tmp_path: Path) -> None:
    run = profile([sys.executable, "-c", "pass"], *options, cwd=tmp_path)
    assert run.code == 2
    assert "above 0" in run.stderr


def test_json_into_a_missing_folder_is_refused_before_anything_runs(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    command = [sys.executable, "-c", f"open({str(touched)!r}, 'w')"]
    run = upshift(
        "profile", "--json", str(tmp_path / "no" / "x.json"), "--keep-outputs", "--", *command, cwd=tmp_path
    )
    assert run.code == 2
    assert "cannot write --json" in run.stderr
    assert not touched.exists()


def test_failure_before_the_first_step_shows_the_whole_traceback(tmp_path: Path) -> None:
    run = profile(program("fault_before_first_step.py"), cwd=tmp_path)
    assert run.code == 1
    theirs, _, ours = run.stderr.partition("\nupshift: ")
    assert "FileNotFoundError" in theirs
    assert "The above exception was the direct cause" in theirs
    assert "CorpusError" in theirs.strip().splitlines()[-1]
    assert "exited with code 1 before its first step" in ours
    assert run.document["program_exit_code"] == 1


@pytest.mark.parametrize("options", [("tune",), ("tune", "--list-knobs")])
def test_tune_shows_the_programs_own_traceback_too(options: tuple[str, ...], tmp_path: Path) -> None:
    run = upshift(*options, "--json", "-", "--", *program("fault_before_first_step.py"), cwd=tmp_path)
    assert run.code == 1
    assert "The above exception was the direct cause" in run.stderr
    assert "exited with code 1 before its first step" in run.stderr
    assert run.document["program_exit_code"] == 1


def test_the_programs_own_exit_code_is_told(tmp_path: Path) -> None:
    run = profile(program("fault_exit_code.py"), cwd=tmp_path)
    assert run.code == 1
    assert run.document["program_exit_code"] == 7


def test_failure_midway(tmp_path: Path) -> None:
    run = profile(program("fault_fails_midway.py"), cwd=tmp_path)
    assert run.code == 1
    assert "IndexError" in run.stderr
    assert "after 11 steps" in run.stderr


def test_never_a_step(tmp_path: Path) -> None:
    run = profile(program("fault_no_step.py"), "--first-step-timeout", "12", cwd=tmp_path)
    assert run.code == 3
    assert "no backward and no optimizer step" in run.stderr
    assert "--first-step-timeout (now 12 s)" in run.stderr


def test_no_torch(tmp_path: Path) -> None:
    run = profile(program("fault_no_torch.py"), "--first-step-timeout", "4", cwd=tmp_path)
    assert run.code == 3
    assert "no process imported torch" in run.stderr


def test_no_python_at_all(tmp_path: Path) -> None:
    run = profile(["sleep", "0.2"], cwd=tmp_path)
    assert run.code == 3
    assert "no Python process" in run.stderr


def test_environment_cleared(tmp_path: Path) -> None:
    run = profile(["env", "-i", *program("fault_os_exit.py")], cwd=tmp_path)
    assert run.code == 3
    assert "clear its environment" in run.stderr


def test_old_torch(tmp_path: Path) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = '1.13.1+cu117'\n")
    (tmp_path / "train.py").write_text("import time, torch\ntime.sleep(60)\n")
    run = profile([sys.executable, "train.py"], cwd=tmp_path)
    assert run.code == 3
    assert "torch is 1.13.1+cu117; upshift needs 2.0" in run.stderr


def test_too_few_steps(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nw = torch.zeros(2, requires_grad=True)\no = torch.optim.SGD([w], lr=1.0)\n"
        "(w.sum()).backward()\no.step()\n"
    )
    run = profile([sys.executable, "train.py"], cwd=tmp_path)
    assert run.code == 3
    assert "too few to measure" in run.stderr


def test_finishing_early_is_enough_when_steps_were_whole(tmp_path: Path) -> None:
    run = profile(program("fault_finishes_early.py"), cwd=tmp_path)
    assert run.code == 0, run.stderr
    assert run.document["ended_by"] == "program"


def test_os_exit_keeps_the_events(tmp_path: Path) -> None:
    run = profile(program("fault_os_exit.py"), cwd=tmp_path)
    assert run.code == 0, run.stderr
    assert run.document["steps"]["observed"] == 29  # the first of 30 began before the agent looked


@pytest.mark.parametrize(
    "name",
    (
        "fault_catches_interrupt.py",
        "fault_bare_except.py",
        "fault_ignores_signals.py",
        "fault_loud.py",
    ),
)
def test_ends_what_does_not_want_to_end(name: str, tmp_path: Path) -> None:
    run = profile(program(name), "--steps", "15", cwd=tmp_path)
    assert run.code == 0, run.stderr
    assert run.document["steps"]["used"] >= 15


@pytest.mark.parametrize("name", ("fault_forks_sleeper.py", "fault_daemonises.py"))
def test_processes_that_try_to_outlive(name: str, tmp_path: Path) -> None:
    run = profile(program(name), "--steps", "15", "--show-output", cwd=tmp_path)
    assert run.code == 0, run.stderr
    assert not alive(announced(run.stderr))


def test_a_probe_that_fails_is_told_and_training_goes_on(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "class Batch:\n"
        "    x = torch.ones(4, 8)\n"
        "    @property\n"
        "    def keys(self):\n"
        "        raise RuntimeError('not a dictionary')\n"
        "class Net(torch.nn.Linear):\n"
        "    def forward(self, batch):\n"
        "        return super().forward(batch.x)\n"
        "net = Net(8, 2)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for _ in range(3000):\n"
        "    net(Batch()).sum().backward()\n"
        "    optimizer.step()\n"
    )
    run = profile([sys.executable, "train.py"], "--steps", "20", cwd=tmp_path)
    assert run.code == 0, run.stderr
    assert run.document["agent"]["probe_failures"] == ["batch: RuntimeError('not a dictionary')"]
    assert run.document["micro_batch"] is None
    assert run.document["grad_accum"] == 1


def test_full_disk(tmp_path: Path) -> None:
    """A real one: scratch on a tmpfs of 300 KiB, filled by the program's own output."""
    small = tmp_path / "small"
    small.mkdir()
    inner = " ".join(
        [
            f"mount -t tmpfs -o size=300k none {small} &&",
            f"UPSHIFT_SCRATCH={small} OMP_NUM_THREADS=1 exec {sys.executable} -m upshift",
            f"profile --json - --keep-outputs -- {sys.executable} {PROGRAMS / 'fault_loud.py'}",
        ]
    )
    flags = "-m" if os.geteuid() == 0 else "-Urm"
    import subprocess

    done = subprocess.run(
        ["unshare", flags, "sh", "-c", inner], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode in (1, 3), (done.stdout, done.stderr)
    assert "is full" in done.stderr
    assert not list(small.iterdir())
