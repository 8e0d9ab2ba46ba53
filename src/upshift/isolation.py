"""Which folders a probe must leave as they are, and what may pass through."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from upshift import config
from upshift.command import Command
from upshift.rundir import INJECT

# Top-level folders that hold the system, not a person's work.
_SYSTEM = frozenset(
    "bin boot dev etc lib lib32 lib64 libx32 lost+found nix proc run sbin snap sys tmp usr var "
    "System Library".split()
)


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """The plan for one launch."""

    roots: tuple[Path, ...]
    """Folders to cover: whatever the run writes below them goes to scratch."""
    required: tuple[Path, ...]
    """Those that must be covered, or the plan has failed: where the run works and where its script is."""
    through: tuple[Path, ...]
    """Caches below the roots that stay shared."""
    planted: tuple[tuple[Path, str], ...]
    """Files that exist for this run only: the .pth that brings the agent in where PYTHONPATH is lost."""
    edited: tuple[tuple[Path, str], ...] = ()
    """Files the run sees with another content; without them the run must not start."""


def plan(command: Command, edited: Mapping[Path, str] | None = None) -> Isolation:
    """Cover every top-level folder of people's work, and where this run works wherever that is."""
    edited = edited or {}
    homes = {command.cwd, *(path.resolve().parent for path in edited)}
    if command.script is not None:
        homes.add(command.script.resolve().parent)
    roots = {p for p in Path("/").iterdir() if p.is_dir() and not p.is_symlink() and p.name not in _SYSTEM}
    required = set()
    for home in homes - {Path("/")}:  # nothing can be laid over / itself; the folders in it are covered
        root = next((r for r in roots if r == home or r in home.parents), None)
        if root is None:
            root = _outside(home)
            roots.add(root)
        required.add(root)
    sites = _site_folders(command)
    # A site folder outside the roots is covered for itself, so that planting leaves no trace there either.
    roots |= {s for s in sites if not any(r == s or r in s.parents for r in roots)}
    through = tuple(
        c
        for c in config.cache_folders()
        if not any(c == home or c in home.parents or home in c.parents for home in homes)
    )
    return Isolation(
        roots=tuple(sorted(roots)),
        required=tuple(sorted(required)),
        through=through,
        planted=tuple((s / "zz_upshift.pth", _pth()) for s in sites),
        edited=tuple((path.resolve(), text) for path, text in edited.items()),
    )


def _outside(home: Path) -> Path:
    """The folder to cover for work below a system folder: /tmp as a whole, else the project's parent."""
    top = Path("/") / home.parts[1] if len(home.parts) > 1 else home
    if top.name == "tmp":
        return top
    return home.parent if home.parent != top and home.parent != Path("/") else home


def _pth() -> str:
    """One line, as .pth files need; dormant without UPSHIFT_SESSION."""
    site = str(INJECT / "sitecustomize.py")
    run = f"exec(compile(open({site!r}).read(), {site!r}, 'exec'), dict(__name__='upshift_site', __file__={site!r}))"
    return f"import os; os.environ.get({config.SESSION!r}) and {run}\n"


def _site_folders(command: Command) -> list[Path]:
    """site-packages of the interpreters the command may start."""
    asked = [str(command.python)] if command.python else ["python", "python3"]
    folders: list[Path] = []
    for python in asked:
        try:
            told = subprocess.run(
                [python, "-I", "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
                capture_output=True,
                text=True,
                timeout=20,
                cwd=command.cwd,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        folder = Path(told.stdout.strip() or "/nonexistent")
        if told.returncode == 0 and folder.is_dir() and folder not in folders:
            folders.append(folder.resolve())
    return folders
