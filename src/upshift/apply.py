"""The plan as the user would have written it: new files beside the old ones, a command line, a patch for code."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path

from upshift.errors import MachineProblem
from upshift.knobs.change import Change
from upshift.search.journal import FOLDER

MARK = "upshift"


@dataclass(frozen=True, kw_only=True)
class Applied:
    """What was written."""

    command: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    files: tuple[Path, ...]
    patch: Path | None
    """To be applied with `git apply` or `patch -p1` before the command is run."""
    diff: str


def apply(now: Change, change: Change) -> Applied:
    """Write what differs. Nothing that is there is overwritten but what upshift wrote there before."""
    argv = list(change.command.argv)
    written: list[Path] = []
    patches: list[str] = []
    diffs: list[str] = []
    for path, text in change.files.items():
        old = path.read_text(encoding="utf-8")
        if text == old:
            continue
        diff = _diff(path, old, text, now.command.cwd)
        diffs.append(diff)
        named = [i for i, a in enumerate(argv) if _same_file(a, path, now.command.cwd)]
        if path.suffix == ".py" or not named:
            patches.append(diff)
            continue
        beside = _write(path.with_name(f"{path.stem}.{MARK}{path.suffix}"), text)
        written.append(beside)
        for i in named:
            argv[i] = _respelled(argv[i], path, beside)
    patch = None
    if patches:
        folder = now.command.cwd / FOLDER
        folder.mkdir(exist_ok=True)
        patch = _write(folder / "tuned.patch", "".join(patches))
        written.append(patch)
    return Applied(
        command=tuple(argv),
        variables=tuple(sorted(change.environment.items())),
        files=tuple(written),
        patch=patch,
        diff="".join(diffs),
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


def _write(path: Path, text: str) -> Path:
    partial = path.with_name(path.name + f".{os.getpid()}.part")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise MachineProblem(f"cannot write {path}: {error.strerror}") from error
    return path


def _diff(path: Path, old: str, new: str, cwd: Path) -> str:
    name = os.path.relpath(path, cwd)
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{name}", f"b/{name}", n=2
    )
    return "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines
    )
