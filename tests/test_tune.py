"""`upshift tune` for real: finds settings wherever they are made, tries, proves, writes, goes on after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import alive, below
from upshift_cli import UPSHIFT, environment, upshift

pytestmark = pytest.mark.timed

PROGRAM = Path(__file__).parent / "programs" / "tune" / "flags.py"
YAML = "# mine\ntraining:\n  batch: 2        # samples\n  accum_steps: 8\nseed: 1\n"


def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(PROGRAM.read_text())
    (tmp_path / "c.yaml").write_text(YAML)
    return tmp_path


def tune(folder: Path, *command: str, options: tuple[str, ...] = ()) -> dict:
    run = upshift(
        "tune",
        "--json",
        "-",
        "--only",
        "micro_batch",
        "--budget",
        "3m",
        *options,
        "--",
        *command,
        cwd=folder,
        timeout=400,
    )
    assert run.code == 0, run.stderr
    return run.document


def test_a_config_file_is_tuned_and_written_beside(tmp_path: Path) -> None:
    folder = project(tmp_path)
    found = tune(folder, sys.executable, "train.py", "--kind", "file", "--config", "c.yaml")
    assert found["schema"] == "upshift.tune/1"
    assert found["best"]["effective_batch"] == found["baseline"]["effective_batch"] == 16
    assert found["best"]["micro_batch"] >= 8
    assert found["speedup"]["low"] > 1.5
    assert found["verdict"]["kind"] == "same"
    micro = found["best"]["micro_batch"]
    text = (folder / "c.upshift.yaml").read_text()
    assert text == YAML.replace("batch: 2", f"batch: {micro}").replace("steps: 8", f"steps: {16 // micro}")
    assert (folder / "c.yaml").read_text() == YAML
    assert found["applied"]["command"][-1] == "c.upshift.yaml"
    done = subprocess.run(
        [*found["applied"]["command"], "--steps", "3"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("flags", ["--batch-size", "--accumulation"]),
        ("constants", ["train.py:BATCH_SIZE", "train.py:GRAD_ACCUM"]),
        ("dataclass", ["train.py:Settings.train_batch_size", "train.py:Settings.accumulation_steps"]),
        ("dict", ["train.py:chosen.mini_batch", "train.py:chosen.update_freq"]),
    ],
)
def test_settings_are_found_where_they_are_made(kind: str, where: list[str], tmp_path: Path) -> None:
    folder = project(tmp_path)
    found = tune(folder, sys.executable, "train.py", "--kind", kind)
    assert [s["binding"] for s in found["settings"]] == where
    assert found["best"]["micro_batch"] >= 8
    if kind == "flags":
        assert found["applied"]["command"][-4] == "--batch-size"
    else:
        patch = found["applied"]["patch"]
        subprocess.run(["patch", "-p1", "-i", patch], cwd=folder, check=True, capture_output=True)
        assert f"{found['best']['micro_batch']}" in (folder / "train.py").read_text()


def test_evaluations_that_no_trial_sees_are_priced_and_made_rarer(tmp_path: Path) -> None:
    program = str(PROGRAM.with_name("evaluates.py"))
    command = (sys.executable, program, "--eval-every", "1000")
    run = upshift("tune", "--json", "-", "--only", "eval_every", "--", *command, cwd=tmp_path, timeout=300)
    assert run.code == 0, run.stderr
    found = run.document
    (beside,) = found["beside"]
    assert beside["what"] == "evaluation" and beside["every"] == 1000
    assert 0.9 < beside["seconds"] < 1.5
    rarer = found["best"]["settings"]["eval_every"]
    assert rarer > 1000 and found["applied"]["command"][-1] == str(rarer)
    assert found["run_speedup"] > 1.05


def test_a_shell_script_in_front(tmp_path: Path) -> None:
    folder = project(tmp_path)
    (folder / "run.sh").write_text(
        f"set -e\n{sys.executable} train.py --batch-size 2 \\\n  --accumulation 8\n"
    )
    run = upshift("tune", "--list-knobs", "--", "bash", "run.sh", cwd=folder)
    assert run.code == 0, run.stderr
    assert "--batch-size" in run.stdout and "--accumulation" in run.stdout


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on(tmp_path: Path) -> None:
    folder = project(tmp_path)
    command = [*UPSHIFT, "tune", "--json", "-", "--only", "micro_batch", "--", sys.executable, "train.py"]
    journal = folder / ".upshift" / "trials.jsonl"
    first = subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (
        journal.exists() and len(journal.read_text().splitlines()) >= 2
    ):
        time.sleep(0.2)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    before = journal.read_text().splitlines()
    assert len(before) >= 2
    with journal.open("a") as stream:
        stream.write('{"schema": "upshift.jour')  # torn
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    entries = [json.loads(line) for line in journal.read_text().splitlines() if line.endswith("}")]
    keys = [e["key"] for e in entries]
    assert len(keys) == len(set(keys)), "a finished trial was run again"
    assert keys[: len(before)] == [json.loads(line)["key"] for line in before]
    assert json.loads(done.stdout)["best"]["micro_batch"] >= 8


def test_a_signal_ends_it_while_it_proves(tmp_path: Path) -> None:
    """A run of the proof that was ended from outside is no verdict, and no reason to go on."""
    folder = project(tmp_path)
    tuning = subprocess.Popen(
        [*UPSHIFT, "tune", "--only", "micro_batch", "--", sys.executable, "train.py"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert tuning.stderr is not None
    assert any("is it the same training?" in line for line in tuning.stderr)
    time.sleep(0.5)
    started = below(tuning.pid)
    tuning.send_signal(signal.SIGTERM)
    _, rest = tuning.communicate(timeout=20)
    assert tuning.returncode == 130, rest
    assert "goes on from there" in rest
    assert started and not alive(started)


@pytest.mark.slow
def test_what_does_not_fit_is_found_out(tmp_path: Path) -> None:
    folder = project(tmp_path)
    found = tune(folder, sys.executable, "train.py", "--megabytes", "100", options=("--memory", "1300MiB"))
    assert found["best"]["micro_batch"] in (2, 4)
    assert any(t["outcome"] == "oom" for t in found["trials"]), found["trials"]


AWKWARD = Path(__file__).parent / "programs" / "tune" / "awkward.py"
COUNTS = "max_steps: 400000\nwarmup_steps: 1600  # until the full rate\neval_every: 8000\nsave_every: 4000\n"


def awkward(tmp_path: Path, how: str, *options: str) -> dict:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(AWKWARD.read_text())
    (folder / "c.yaml").write_text("batch_size: 2\ngrad_accum: 8\n" + COUNTS)
    return tune(folder, sys.executable, "train.py", "--how", how, "--config", "c.yaml", options=options)


@pytest.mark.slow
def test_what_is_counted_in_micro_batches_follows(tmp_path: Path) -> None:
    found = awkward(tmp_path, "micro_steps")
    after = {s["knob"]: s["after"] for s in found["settings"]}
    share = 8 // after["grad_accum"]
    assert after["max_steps"] == 400_000 // share, found["notes"]
    assert after["warmup"] == 1600 // share
    assert after["eval_every"] == 8000 // share
    assert after["save_every"] == 4000 // share
    assert found["verdict"]["kind"] == "same"
    assert "# until the full rate" in (tmp_path / "project" / "c.upshift.yaml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cache", "parent", "twice"])
def test_awkward_habits_are_no_hindrance(how: str, tmp_path: Path) -> None:
    found = awkward(tmp_path, how)
    after = {s["knob"]: s["after"] for s in found["settings"]}
    assert after["micro_batch"] >= 8
    assert set(after) == {"micro_batch", "grad_accum"}  # its counts are optimizer steps, and stay
    assert found["verdict"]["kind"] == "same"
    assert not (tmp_path / "left_behind.txt").exists()
    assert {p.name for p in (tmp_path / "project").iterdir()} == {
        ".upshift",
        "c.upshift.yaml",
        "c.yaml",
        "train.py",
    }


@pytest.mark.slow
def test_a_minute_to_start_is_waited_for(tmp_path: Path) -> None:
    run = upshift(
        "tune",
        "--list-knobs",
        "--",
        sys.executable,
        str(AWKWARD),
        "--how",
        "late",
        cwd=_with_config(tmp_path),
    )
    assert run.code == 0, run.stderr
    assert "c.yaml:batch_size" in run.stdout


def _with_config(tmp_path: Path) -> Path:
    (tmp_path / "c.yaml").write_text("batch_size: 2\ngrad_accum: 8\n" + COUNTS)
    return tmp_path


LENGTHS = Path(__file__).parent / "programs" / "tune" / "lengths.py"


@pytest.mark.slow
def test_the_longest_batch_is_tried_before_a_large_one_wins(tmp_path: Path) -> None:
    """16 short texts hold 64 MB and fit beside torch; padded to the longest they hold 512 MB and do not."""
    (tmp_path / "train.py").write_text(LENGTHS.read_text())
    found = tune(tmp_path, sys.executable, "train.py", options=("--memory", "700MiB"))
    fast = [t for t in found["trials"] if t["outcome"] == "ok" and t["micro_batch"] == 16]
    assert fast, found["trials"]
    assert found["best"]["micro_batch"] in (4, 8)
    assert any("longest batch" in r["why"] for r in found["rejected"]), found["rejected"]
