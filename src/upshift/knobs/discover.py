"""Where each knob may be set: candidates by name and value, from all that the run has shown of its settings.

Sources, the user's own words first: the command line, config files the command names or the run has read, flags that
its parsers know, values in its code. Candidates are only that; a trial must show the effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from upshift.eventlog import ProcessLog
from upshift.knobs import code, config_file
from upshift.knobs.binding import Binding, FileKey, Flag, InCode, Override, config_files, shell_script
from upshift.knobs.change import Change
from upshift.knobs.knob import Knob

_MOST_FILES = 60


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the run has shown of where its settings come from."""

    flags: Mapping[str, object]
    """Flags its parsers know, with the value each had."""
    files: tuple[Path, ...]
    """Config files it has read."""
    sources: tuple[Path, ...]
    """Python files of the user's own, the script first."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A place that may set a knob."""

    binding: Binding
    value: object
    where: str


def seen(processes: Sequence[ProcessLog], now: Change) -> Seen:
    """Gather it from the events of a run."""
    flags: dict[str, object] = {}
    files: dict[Path, None] = dict.fromkeys(config_files(now.command))
    sources: dict[Path, None] = {}
    script = now.command.script
    if script is not None and script.suffix == ".py":
        sources[script.resolve()] = None
    for process in processes:
        for event in process.settings:
            for flag, value in event.get("flags", ()):
                flags.setdefault(flag, value)
            for name in event.get("files", ()):
                path = Path(name)
                if path.is_file():
                    (sources if path.suffix == ".py" else files).setdefault(path.resolve())
    return Seen(flags=flags, files=tuple(files)[:_MOST_FILES], sources=tuple(sources)[:_MOST_FILES])


def candidates(knob: Knob, value: object, now: Change, found: Seen) -> list[Candidate]:
    """Places named like the knob; those that hold `value` first, all others after, each once."""
    unique: dict[Binding, Candidate] = {}
    for candidate in _places(knob, now, found):
        unique.setdefault(candidate.binding, candidate)
    fitting = [c for c in unique.values() if value is None or c.value == value]
    return sorted(fitting, key=lambda c: _doubt(str(c.binding)))  # stable: the order of sources stays


def _doubt(name: str) -> int:
    """A name with further words in it may be something else: MAX_GPU_BATCH_SIZE."""
    return int(bool(re.search(r"max|min|limit|default", name, re.IGNORECASE)))


def on_command_line(now: Change) -> Iterator[Binding]:
    """Flags and overrides as they stand there, or in the shell script that the command runs."""
    for argument in now.command.argv[1:]:
        name = argument.partition("=")[0]
        if re.fullmatch(r"--?[A-Za-z][\w.-]*", name):
            yield Flag(name)
        elif "=" in argument and re.fullmatch(r"\+*[A-Za-z][\w.]*", name):
            yield Override(name.lstrip("+"))
    script = shell_script(now.command)
    if script is not None:
        for name in dict.fromkeys(re.findall(r"(?<![\w-])(--?[A-Za-z][\w.-]*)", now.text(script))):
            yield Flag(name)


def _places(knob: Knob, now: Change, found: Seen) -> Iterator[Candidate]:
    def fits(name: str) -> bool:
        plain = name.lstrip("-+").rpartition(".")[2] if "." in name else name.lstrip("-+")
        return bool(knob.names.search(plain)) and not knob.unlike.search(name)

    for binding in on_command_line(now):
        if fits(str(binding).rstrip("=")):
            yield Candidate(binding=binding, value=binding.now(now), where="command line")
    for path in found.files:
        for entry in config_file.entries(path, now.text(path)):
            if fits(entry.key):
                yield Candidate(
                    binding=FileKey(path, entry.key), value=entry.value, where=f"{path.name}:{entry.line}"
                )
    for flag, value in found.flags.items():
        if fits(flag) and not isinstance(value, bool):
            yield Candidate(binding=Flag(flag), value=value, where="parser")
    for path in found.sources:
        yield from _in_code(path, now, fits)


def _in_code(path: Path, now: Change, fits: object) -> Iterator[Candidate]:
    assert callable(fits)
    try:
        sites = code.sites(now.text(path))
    except (SyntaxError, UnicodeDecodeError, OSError):
        return
    for site in sites:
        if not fits(site.last):
            continue
        if site.how == "flag":
            yield Candidate(
                binding=Flag("--" + site.last), value=site.value, where=f"{path.name}:{site.line}"
            )
        else:
            same = [s for s in sites if s.name == site.name]
            binding = InCode(path, site.name, same.index(site))
            yield Candidate(binding=binding, value=site.value, where=f"{path.name}:{site.line}")
