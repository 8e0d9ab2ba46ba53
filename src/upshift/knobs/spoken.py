"""`--bind micro_batch=TEXT`: what the user says about where something is set → a binding. See binding.py."""

from __future__ import annotations

import re
from pathlib import Path

from upshift.command import Command
from upshift.errors import UsageError
from upshift.knobs import code, config_file
from upshift.knobs.binding import Binding, FileKey, Flag, InCall, InCode, Override, Variable, config_files
from upshift.knobs.change import exact_text


def parse(text: str, command: Command) -> Binding:
    """A binding from its text. Raises UsageError where it leads nowhere."""
    if text.startswith("$"):
        return Variable(text[1:])
    if text.startswith("-"):
        return Flag(text)
    if text.endswith("="):
        return Override(text[:-1])
    name, _, key = text.rpartition(":")
    if name:
        path = (command.cwd / name).resolve()
        if not path.is_file():
            raise UsageError(f"--bind names the file {name!r}, which does not exist in {command.cwd}")
        return _in_code(path, key) if path.suffix == ".py" else _file_key(path, key)
    found = [b for path in config_files(command) if (b := _maybe_key(path, key)) is not None]
    if len(found) == 1:
        return found[0]
    if command.script is not None and command.script.suffix == ".py" and not found:
        return _in_code(command.script, key)
    raise UsageError(
        f"--bind {text!r}: {'no config file the command names has' if not found else 'several files have'} that key",
        hint="name the file: --bind micro_batch=config.yaml:train.batch_size",
    )


def _maybe_key(path: Path, key: str) -> FileKey | None:
    found = config_file.entries(path, path.read_bytes().decode("utf-8", errors="replace"))
    matching = [e.key for e in found if e.key == key] or [e.key for e in found if e.key.endswith("." + key)]
    return FileKey(path, matching[0]) if len(matching) == 1 else None


def _file_key(path: Path, key: str) -> FileKey:
    binding = _maybe_key(path, key)
    if binding is None:
        raise UsageError(f"{path.name} has no single key {key!r}")
    return binding


def _in_code(path: Path, name: str) -> InCode | InCall:
    if match := re.fullmatch(r"(\w+)\((\w+)\)", name):
        return InCall(path, match.group(1), match.group(2))
    try:
        found = code.sites(exact_text(path))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise UsageError(f"{path.name} cannot be read as Python: {error}") from error
    if name.isdigit():
        matching = [s for s in found if s.line == int(name) and isinstance(s.value, int)]
    else:
        matching = [s for s in found if s.name == name] or [s for s in found if s.last == name]
    if len(matching) != 1:
        what = "no value" if not matching else f"{len(matching)} values"
        raise UsageError(
            f"{path.name} has {what} called {name!r}",
            hint=f"give its line: --bind KNOB={path.name}:LINE"
            + "".join(f"\n  line {s.line}: {s.name} = {s.value!r}" for s in matching[:8]),
        )
    same = [s for s in found if s.name == matching[0].name]
    return InCode(path, matching[0].name, same.index(matching[0]))
