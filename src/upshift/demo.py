"""`upshift demo`: the built-in example, as a user's command."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from upshift.command import Command, understand
from upshift.errors import UsageError
from upshift.rundir import PACKAGE

_EXAMPLE = Path("examples") / "pointer_generator"


def command() -> Command:
    """The example's own command line, with the interpreter upshift runs in."""
    missing = [m for m in ("torch", "yaml") if importlib.util.find_spec(m) is None]
    if missing:
        raise UsageError(
            f"the example needs {' and '.join(missing)} beside upshift",
            hint="pip install 'upshift[examples]'",
        )
    folder = example_folder()
    return understand(
        [
            sys.executable,
            str(folder / "train.py"),
            "--config",
            str(folder / "configs" / "rtx4070_8gb.yaml"),
        ]
    )


def example_folder() -> Path:
    """Inside the wheel, or in the repository when installed from there."""
    for base in (PACKAGE, PACKAGE.parents[1]):
        if (base / _EXAMPLE / "train.py").is_file():
            return base / _EXAMPLE
    raise UsageError("the built-in example is missing from this installation")
