"""`upshift run`: so far, a tuned run whose settings include something that only works inside the process."""

from __future__ import annotations

import argparse
import os
from typing import Any

from upshift.errors import UsageError


def add_run(verbs: Any) -> None:
    """The verb."""
    verb = verbs.add_parser(
        "run",
        help="run it as it was tuned",
        usage="upshift run --tuned -- COMMAND…",
        description="Becomes COMMAND, with the levers that `upshift tune` has found to pay in this folder. Nothing "
        "is measured, nothing is redirected.",
    )
    verb.add_argument(
        "--tuned", action="store_true", required=True, help="with the levers in .upshift/tuned.json"
    )
    verb.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from pathlib import Path

    from upshift import config
    from upshift.apply import tuned_file
    from upshift.command import understand
    from upshift.rundir import INJECT

    if options.command is None:
        raise UsageError("no `--` before the command", hint="upshift run --tuned -- python train.py")
    command = understand(options.command)
    session = tuned_file(Path.cwd())
    if not session.is_file():
        raise UsageError(
            f"nothing was tuned in {Path.cwd()} that needs `upshift run`: {session.name} is not there",
            hint="run the command without upshift, or tune it first: upshift tune -- COMMAND…",
        )
    environment = config.child_environment(INJECT, session.resolve(), probe=False)
    try:
        os.execvpe(command.argv[0], list(command.argv), environment)
    except OSError as error:
        raise UsageError(f"the command could not be started: {command.argv[0]}: {error.strerror}") from error
