"""The user's folder is, byte for byte, as it was."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from truth import PROGRAMS
from upshift_cli import UPSHIFT, environment, profile

COMMAND = [sys.executable, str(PROGRAMS / "writes_everywhere.py")]


def fingerprint(folder: Path) -> dict[str, tuple[object, ...]]:
    """Name, kind, mode, mtime and content of everything below."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_mtime_ns, status.st_size, content)
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "cache").mkdir(parents=True)
    (folder / "cache" / "vocab.bin").write_bytes(b"\x00\x01")
    (folder / "notes.txt").write_text("my own notes, please keep\n")
    (folder / "old.txt").write_text("old\n")
    (folder / "best.pt").write_bytes(b"weights of last week")
    (folder / "config.yaml").write_text("batch_size: 6  # mine\n")
    return folder


@pytest.mark.parametrize("kind", ("overlay", "redirect"))
def test_folder_is_unchanged(kind: str, project: Path) -> None:
    before = fingerprint(project.parent)
    run = profile(COMMAND, "--isolation", kind, cwd=project)
    assert run.code == 0, run.stderr
    assert run.document["isolation"]["kind"] == kind
    assert run.document["steps"]["observed"] == 39  # it ran to its end, and found what it had written
    assert fingerprint(project.parent) == before


def test_experiments_leave_the_folder_alone(tmp_path: Path) -> None:
    before = fingerprint(tmp_path)
    run = profile(
        [sys.executable, str(PROGRAMS / "checkpoint_every.py")],
        "--steps",
        "10",
        cwd=tmp_path,
        experiments=True,
    )
    assert run.code == 0, run.stderr
    assert run.document["limit"] is not None
    assert fingerprint(tmp_path) == before


def test_without_root(project: Path, scratch: Path) -> None:
    """An ordinary user gets the overlay through a user namespace, and tidies up without root's rights."""
    before = fingerprint(project)
    done = subprocess.run(
        ["unshare", "--user", "--map-user=1000", "--map-group=1000", *UPSHIFT, "profile", "--json", "-"]
        + ["--isolation", "overlay", "--", *COMMAND],
        cwd=project,
        env=environment(UPSHIFT_SCRATCH=str(scratch)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert fingerprint(project) == before
    assert not list(scratch.iterdir())


def test_keep_outputs_keeps_them(project: Path) -> None:
    run = profile(COMMAND, "--keep-outputs", cwd=project)
    assert run.code == 0, run.stderr
    assert (project / "final.pt").exists()
    assert (project.parent / "ckpt_outside" / "model.pt").exists()
    assert not (project / "old.txt").exists()


def test_hf_trainer_leaves_no_output_folder(tmp_path: Path) -> None:
    run = profile([sys.executable, str(PROGRAMS / "hf_trainer.py")], "--steps", "8", cwd=tmp_path)
    assert run.code == 0, run.stderr
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_in_site_packages_or_scratch(scratch: Path) -> None:
    site = Path(sysconfig.get_paths()["purelib"])
    before = sorted(os.listdir(site))
    run = profile(
        [sys.executable, "-I", str(PROGRAMS / "fault_os_exit.py")],
        cwd=Path("/"),
        UPSHIFT_SCRATCH=str(scratch),
    )
    assert run.code == 0, run.stderr
    assert sorted(os.listdir(site)) == before
    assert not list(scratch.iterdir())
