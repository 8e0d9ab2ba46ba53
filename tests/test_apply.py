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


def test_a_patch_for_code_above_the_folder_of_the_command(tmp_path: Path) -> None:
    """`patch` refuses names that reach upwards: it is told where to begin."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "trainer.py").write_text("ACCUM = 8\n")
    (tmp_path / "projects" / "adder").mkdir(parents=True)
    (tmp_path / "projects" / "adder" / "train.py").write_text("import trainer\n")
    now = Change(command=understand([sys.executable, "train.py"], tmp_path / "projects" / "adder"))
    done = apply(now, now.with_file(tmp_path / "lib" / "trainer.py", "ACCUM = 1\n"))
    assert done.patch is not None and done.patch_root == tmp_path
    subprocess.run(["patch", "-d", done.patch_root, "-p1", "-i", done.patch], check=True, capture_output=True)
    assert (tmp_path / "lib" / "trainer.py").read_text() == "ACCUM = 1\n"


@pytest.mark.parametrize("name", ["c.yaml", "c.json", "c.toml", "train.py"])
def test_line_ends_stay_as_they_are(name: str, tmp_path: Path) -> None:
    old = {
        "c.yaml": b"train:\r\n  lr: 0.1\r\n  batch: 2   # mine\r\nlast: 1\r\n",
        "c.json": b'{\r\n  "lr": 0.1,\r\n  "batch": 2\r\n}\r\n',
        "c.toml": b"lr = 0.1\r\nbatch = 2  # mine\r\n",
        "train.py": b"import time\r\n\x0c\r\nbatch = 2\r\ntime.sleep(60)\r\n",
    }[name]
    (tmp_path / "train.py").write_text("")
    (tmp_path / name).write_bytes(old)
    argv = [sys.executable, "train.py", *([] if name == "train.py" else ["--config", name])]
    now = Change(command=understand(argv, tmp_path))
    spoken = "train.py:batch" if name == "train.py" else f"{name}:batch"
    done = apply(now, parse(spoken, now.command).apply(now, 16), in_place=True)
    assert (tmp_path / name).read_bytes() == old.replace(b"2", b"16")
    assert done.backup is not None
    undo(tmp_path)
    assert (tmp_path / name).read_bytes() == old


def test_what_was_written_before_is_not_overwritten(now: Change) -> None:
    """A run may be going with it, or its owner has changed it since."""
    folder = now.command.cwd
    first = apply(now, turned(now))
    (folder / "conf" / "c.upshift.yaml").write_text("mine now\n")
    second = apply(now, turned(now))
    third = apply(now, turned(now))
    assert first.command[-1] == "--config=conf/c.upshift.yaml"
    assert (folder / "conf" / "c.upshift.yaml").read_text() == "mine now\n"
    assert second.command[-1] == third.command[-1] == "--config=conf/c.upshift.2.yaml"
    assert (folder / "conf" / "c.upshift.2.yaml").read_text() == YAML.replace("2 ", "16 ")


def test_a_config_in_python_that_the_command_names_gets_a_copy(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\nexec(open(sys.argv[1]).read())\nprint(batch_size)\n")
    (tmp_path / "small.py").write_text("batch_size = 2  # mine\n")
    now = Change(command=understand([sys.executable, "train.py", "small.py"], tmp_path))
    done = apply(now, parse("small.py:batch_size", now.command).apply(now, 16))
    assert done.patch is None and done.command[-1] == "small_upshift.py"
    run = subprocess.run(done.command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout == "16\n"


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
