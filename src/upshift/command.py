"""The user's argv, understood as far as needed and never changed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from upshift import config
from upshift.errors import UsageError

_PYTHON = re.compile(r"(python|pypy)[0-9.]*(\.exe)?$")
_TAKES_VALUE = ("-W", "-X", "--check-hash-based-pycs")


@dataclass(frozen=True, kw_only=True)
class Command:
    """What the user types today."""

    argv: tuple[str, ...]
    """Exactly as given."""
    cwd: Path
    program: Path
    """The executable argv[0] stands for."""
    script: Path | None
    """The first file of the user's own that the command names, if any."""
    python: Path | None
    """The interpreter, if the command names one."""
    isolated: bool
    """True for `python -I` or `-E`, which hide PYTHONPATH."""

    def __str__(self) -> str:
        return shlex.join(self.argv)


def understand(argv: Sequence[str], cwd: Path | None = None) -> Command:
    """Read a command. Raises UsageError where it cannot be started."""
    cwd = (cwd or Path.cwd()).resolve()
    if not argv:
        raise UsageError(
            "no command given after `--`",
            hint="upshift profile -- python train.py --config config.yaml",
        )
    program = _find(argv[0], cwd)
    python = program if _PYTHON.match(program.name) or _PYTHON.match(Path(argv[0]).name) else None
    script, isolated = None, False
    if python is not None:
        script, isolated = _python_arguments(argv[1:], cwd)
    else:
        script = next((cwd / a for a in argv[1:] if _is_script(a, cwd)), None)
    return Command(
        argv=tuple(argv), cwd=cwd, program=program, script=script, python=python, isolated=isolated
    )


def _find(name: str, cwd: Path) -> Path:
    """The executable as the shell would find it."""
    if os.sep in name:
        found = cwd / name
        if found.is_file() and os.access(found, os.X_OK):
            return found
        what = "cannot be executed" if found.exists() else "does not exist"
    else:
        path = shutil.which(name, path=config.search_path())
        if path:
            return Path(path)
        found, what = cwd / name, "is not on PATH"
    hint = "give the command as you type it today: upshift profile -- python train.py …"
    if name.endswith(".py") and found.exists():
        hint = f"python scripts need their interpreter: upshift profile -- python {name} …"
    elif name.endswith((".sh", ".bash")) and found.exists():
        hint = f"upshift profile -- bash {name} …"
    raise UsageError(f"the command's program {name!r} {what}", hint=hint)


def _python_arguments(arguments: Sequence[str], cwd: Path) -> tuple[Path | None, bool]:
    """(script, isolated) of a python command line; the script must exist."""
    isolated = False
    rest = iter(arguments)
    for argument in rest:
        if argument in ("-m", "-c") or argument.startswith(("-m", "-c")):
            return next((cwd / a for a in rest if _is_script(a, cwd)), None), isolated
        if argument in _TAKES_VALUE:
            next(rest, None)
        elif argument.startswith("-") and argument != "-":
            flags = "" if argument.startswith("--") else argument[1:]
            isolated = isolated or "I" in flags or "E" in flags
        else:
            script = cwd / argument
            if argument != "-" and not script.exists():
                raise UsageError(
                    f"the script {argument!r} does not exist in {cwd}",
                    hint="run upshift from the folder where you run the training",
                )
            return script, isolated
    return None, isolated


def _is_script(argument: str, cwd: Path) -> bool:
    return argument.endswith((".py", ".sh", ".bash", ".slurm", ".sbatch")) and (cwd / argument).is_file()
