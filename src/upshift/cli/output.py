"""Where a verb's words go: the terminal, a file, stdout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from upshift.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console


def console() -> Console:
    """For talk: stderr."""
    from rich.console import Console

    return Console(stderr=True)


def check_output(path: str | None, flag: str = "--json") -> None:
    """Say now, not after a minute of measuring, that the file cannot be written."""
    if path in (None, "-"):
        return
    import os

    assert path is not None
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise UsageError(
            f"cannot write {flag} {path!r}: {folder!r} is not a folder upshift may write to",
            hint="give a file in an existing folder, or - for stdout",
        )


def write_document(document: dict[str, Any], path: str) -> None:
    """As JSON, to a file or to stdout."""
    import json
    from pathlib import Path

    if path == "-":
        print(json.dumps(document, indent=2))
        return
    from upshift.rundir import write_json

    try:
        write_json(Path(path), document)
    except OSError as error:
        raise UsageError(f"cannot write --json {path!r}: {error.strerror}") from error
