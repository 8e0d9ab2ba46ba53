"""What is written, and that nothing of the user's is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from upshift_cli import upshift

from upshift.apply import apply, undo
from upshift.command import understand
from upshift.errors import UsageError
from upshift.knobs.change import Change
from upshift.knobs.spoken import parse

YAML = "train:\n  batch: 2   # mine\n"


@pytest.fixture
def now(tmp_path: Path) -> Change:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "c.yaml").write_text(YAML)
    (tmp_path / "train.py").write_text("import time\nACCUM = 8\ntime.sleep(60)\n")
    return Change(command=understand([sys.executable, "train.py", "--config=conf/c.yaml"], tmp_path))


def turned(now: Change) -> Change:
    change = parse("batch", now.command).apply(now, 16)
    return parse("train.py:ACCUM", now.command).apply(change, 1)


def test_a_copy_beside_and_a_patch_for_code(now: Change) -> None:
    done = apply(now, turned(now))
    folder = now.command.cwd
    assert (folder / "conf" / "c.upshift.yaml").read_text() == YAML.replace("2 ", "16 ")
    assert (folder / "conf" / "c.yaml").read_text() == YAML
    assert done.command[-1] == "--config=conf/c.upshift.yaml"
    assert done.patch is not None
    subprocess.run(["patch", "-p1", "-i", str(done.patch)], cwd=folder, check=True, capture_output=True)
    assert "ACCUM = 1\n" in (folder / "train.py").read_text()


def test_in_place_with_the_way_back(now: Change) -> None:
    folder = now.command.cwd
    before = (folder / "train.py").read_text()
    done = apply(now, turned(now), in_place=True)
    assert done.backup is not None
    assert (folder / "conf" / "c.yaml").read_text() == YAML.replace("2 ", "16 ")
    assert "ACCUM = 1" in (folder / "train.py").read_text()
    run = upshift("undo", cwd=folder)
    assert run.code == 0, run.stderr
    assert (folder / "conf" / "c.yaml").read_text() == YAML
    assert (folder / "train.py").read_text() == before
    with pytest.raises(UsageError, match="nothing to undo"):
        undo(folder)


def test_never_into_a_file_that_a_running_process_was_started_with(now: Change) -> None:
    folder = now.command.cwd
    running = subprocess.Popen(now.command.argv, cwd=folder)
    try:
        done = apply(now, parse("batch", now.command).apply(now, 16), in_place=True)
    finally:
        running.kill()
        running.wait()
    assert done.in_use == ((folder / "conf" / "c.yaml").resolve(),)
    assert (folder / "conf" / "c.yaml").read_text() == YAML
    assert (folder / "conf" / "c.upshift.yaml").exists()
