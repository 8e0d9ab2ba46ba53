"""Runs the installed `upshift` the way a person does, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UPSHIFT = (sys.executable, "-m", "upshift")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished upshift."""

    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(self.stdout)


def environment(**extra: str) -> dict[str, str]:
    """One thread a process: the tests run beside each other and on two cores."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80", **extra}


def upshift(*arguments: str, cwd: Path, timeout: float = 240, **extra: str) -> Run:
    """Run upshift to its end."""
    done = subprocess.run(
        [*UPSHIFT, *arguments],
        cwd=cwd,
        env=environment(**extra),
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    return Run(code=done.returncode, stdout=done.stdout, stderr=done.stderr)


def profile(
    command: list[str] | tuple[str, ...],
    *options: str,
    cwd: Path,
    experiments: bool | str = False,
    **extra: str,
) -> Run:
    """`upshift profile --json - [options] -- command`; without experiments, which take their time, unless asked."""
    if not experiments:
        options = (*options, "--no-experiments")
    elif isinstance(experiments, str):
        options = (*options, "--experiments", experiments)
    return upshift("profile", "--json", "-", *options, "--", *command, cwd=cwd, **extra)
