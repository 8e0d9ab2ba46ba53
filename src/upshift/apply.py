"""The plan as the user would have written it: new files beside the old ones, a command line, a patch for code.

In place only if asked, with a backup that `upshift undo` puts back, and never into a file that a process now running
was started with: it may read it again.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import time
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import psutil

from upshift.errors import MachineProblem, UsageError
from upshift.knobs.change import Change, exact_text
from upshift.search.journal import FOLDER

MARK = "upshift"
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, kw_only=True)
class Applied:
    """What was written."""

    command: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    files: tuple[Path, ...]
    patch: Path | None
    """To be applied with `git apply` or `patch -p1` before the command is run."""
    diff: str
    patch_root: Path | None = None
    """The folder in which to apply it: above the code and the command's folder, for no patch reaches upwards."""
    backup: Path | None = None
    """Where the old contents are, if files were changed in place."""
    in_use: tuple[Path, ...] = ()
    """Files that were to be changed in place, but a running process was started with them."""


def apply(now: Change, change: Change, *, in_place: bool = False) -> Applied:
    """Write what differs. Without `in_place` nothing is overwritten: a run may be going with an earlier result."""
    busy = tuple(path for path in change.files if _in_use(path)) if in_place else ()
    applied = _in_place(now, change) if in_place and not busy else _beside(now, change, busy)
    return _with_levers(applied, now, change) if change.levers else applied


def tuned_file(cwd: Path) -> Path:
    """What `upshift run --tuned` goes by: a session for the agent that holds levers and nothing else."""
    return cwd / FOLDER / "tuned.json"


def _with_levers(applied: Applied, now: Change, change: Change) -> Applied:
    path = tuned_file(now.command.cwd)
    path.parent.mkdir(exist_ok=True)
    _write(path, json.dumps({"schema": "upshift.tuned/1", "levers": dict(change.levers)}, indent=2) + "\n")
    return replace(
        applied,
        command=("upshift", "run", "--tuned", "--", *applied.command),
        files=(*applied.files, path),
    )


def _in_place(now: Change, change: Change) -> Applied:
    """The files themselves, after their old contents are safe."""
    changed = {p: (exact_text(p), text) for p, text in change.files.items()}
    changed = {p: (old, new) for p, (old, new) in changed.items() if old != new}
    backup = None
    if changed:
        backup = now.command.cwd / FOLDER / "backup" / time.strftime("%Y%m%d-%H%M%S")
        backup.mkdir(parents=True, exist_ok=True)
        names = {}
        for number, (path, (old, _)) in enumerate(changed.items()):
            names[str(path)] = _write(backup / f"{number}{path.suffix}", old).name
        _write(backup / "manifest.json", json.dumps(names, indent=2) + "\n")
        for path, (_, new) in changed.items():
            _write(path, new)
    return Applied(
        command=change.command.argv,
        variables=tuple(sorted(change.environment.items())),
        files=tuple(changed),
        patch=None,
        diff="".join(_diff(p, old, new, now.command.cwd) for p, (old, new) in changed.items()),
        backup=backup,
    )


def undo(cwd: Path) -> list[Path]:
    """Put back what the last change in place has replaced; that backup is then gone."""
    kept = sorted((cwd / FOLDER / "backup").glob("*/manifest.json"))
    if not kept:
        raise UsageError(f"nothing to undo in {cwd}: no change was made in place from here")
    folder = kept[-1].parent
    names = json.loads(kept[-1].read_text(encoding="utf-8"))
    for path, name in names.items():
        _write(Path(path), exact_text(folder / name))
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    return [Path(path) for path in names]


def _in_use(path: Path) -> bool:
    """Does the command line of a running process name this file?"""
    for process in psutil.process_iter():
        if process.pid in (os.getpid(), os.getppid()):
            continue
        try:
            arguments, cwd = process.cmdline(), Path(process.cwd())
        except (psutil.Error, OSError):
            continue
        if "upshift" not in " ".join(arguments[:4]) and any(_same_file(a, path, cwd) for a in arguments[1:]):
            return True
    return False


def _beside(now: Change, change: Change, busy: tuple[Path, ...]) -> Applied:
    argv = list(change.command.argv)
    program = change.command.script
    script = program.resolve() if program is not None and program.suffix == ".py" else None
    cwd = now.command.cwd
    written: list[Path] = []
    patched: dict[Path, tuple[str, str]] = {}
    diffs: list[str] = []
    for path, text in change.files.items():
        old = exact_text(path)
        if text == old:
            continue
        named = [i for i, a in enumerate(argv) if _same_file(a, path, cwd)]
        if path == script or not named:
            patched[path] = old, text
            continue
        diffs.append(_diff(path, old, text, cwd))
        beside = _new_file(path, text)
        written.append(beside)
        for i in named:
            argv[i] = _respelled(argv[i], path, beside)
    patch = root = None
    if patched:
        root = Path(os.path.commonpath([cwd, *(path.parent for path in patched)]))
        patches = "".join(_diff(path, old, text, root) for path, (old, text) in patched.items())
        diffs.append(patches)
        folder = cwd / FOLDER
        folder.mkdir(exist_ok=True)
        patch = _write(folder / "tuned.patch", patches)
        written.append(patch)
    return Applied(
        command=tuple(argv),
        variables=tuple(sorted(change.environment.items())),
        files=tuple(written),
        patch=patch,
        patch_root=root,
        diff="".join(diffs),
        in_use=busy,
    )


def _same_file(argument: str, path: Path, cwd: Path) -> bool:
    value = argument.partition("=")[2] if argument.startswith("-") and "=" in argument else argument
    try:
        return bool(value) and (cwd / value).resolve() == path
    except OSError:
        return False


def _respelled(argument: str, old: Path, new: Path) -> str:
    """The argument with the new file's name where the old one's stood."""
    return argument[: -len(old.name)] + new.name if argument.endswith(old.name) else str(new)


def _new_file(path: Path, text: str) -> Path:
    """A copy of the file with this content: config.upshift.yaml, or a number more where that is something else."""
    join = "_" if path.suffix == ".py" else "."  # a config in Python may be imported
    for number in count(1):
        mark = MARK if number == 1 else f"{MARK}{join}{number}"
        beside = path.with_name(f"{path.stem}{join}{mark}{path.suffix}")
        if not beside.exists():
            return _write(beside, text)
        if beside.read_bytes() == text.encode():
            break
    return beside


def _write(path: Path, text: str) -> Path:
    partial = path.with_name(path.name + f".{os.getpid()}.part")
    try:
        partial.write_bytes(text.encode())
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise MachineProblem(f"cannot write {path}: {error.strerror}") from error
    return path


def _diff(path: Path, old: str, new: str, folder: Path) -> str:
    name = os.path.relpath(path, folder)
    lines = difflib.unified_diff(_LINE.findall(old), _LINE.findall(new), f"a/{name}", f"b/{name}", n=2)
    return "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines
    )
