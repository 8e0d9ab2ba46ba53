"""Where each knob may be set: candidates by name and value, from all that the run has shown of its settings.

Sources, the user's own words first: the command line, config files the command names or the run has read, flags that
its parsers know, values in its code. Candidates are only that; a trial must show the effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from upshift import config
from upshift.eventlog import ProcessLog
from upshift.knobs import calls, code, config_file
from upshift.knobs.binding import (
    Binding,
    FileKey,
    Flag,
    InCall,
    InCode,
    Override,
    Switch,
    Variable,
    config_files,
    shell_script,
    value_of,
)
from upshift.knobs.change import Change
from upshift.knobs.knob import Knob

_MOST_FILES = 60
_DEFAULT = None
"""Value of what is left to its default: it may be the one observed."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the run has shown of where its settings come from."""

    flags: Mapping[str, object]
    """Flags its parsers know, with the value each had."""
    files: tuple[Path, ...]
    """Config files it has read."""
    sources: tuple[Path, ...]
    """Python files of the user's own, the script first."""
    switches: Mapping[str, str | None] = field(default_factory=dict)
    """Flags that take no value → the flag that says no, or None."""
    overrides: Mapping[str, object] = field(default_factory=dict)
    """Keys that `key=value` on the command line would set, with the value each had."""
    loaders: tuple[str, ...] = ()
    """file:line where the DataLoaders that feed the training were made."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A place that may set a knob."""

    binding: Binding
    value: object
    where: str


def seen(processes: Sequence[ProcessLog], now: Change) -> Seen:
    """Gather it from the events of a run."""
    flags: dict[str, object] = {}
    switches: dict[str, str | None] = {}
    overrides: dict[str, object] = {}
    loaders: dict[str, None] = {}
    files: dict[Path, None] = dict.fromkeys(config_files(now.command))
    sources: dict[Path, None] = {}
    script = now.command.script
    if script is not None and script.suffix == ".py":
        sources[script.resolve()] = None
    for process in processes:
        if process.active is not None:
            loaders.update((e["where"], None) for e in process.loaders if e["where"] and not e["evaluation"])
        for event in process.settings:
            for flag, value in event.get("flags", ()):
                flags.setdefault(flag, value)
            switches.update(event.get("switches", ()))
            overrides.update(event.get("overrides", ()))
            for name in event.get("files", ()):
                path = Path(name)
                if path.is_file():
                    (sources if path.suffix == ".py" else files).setdefault(path.resolve())
    return Seen(
        flags=flags,
        files=tuple(files)[:_MOST_FILES],
        sources=tuple(sources)[:_MOST_FILES],
        switches=switches,
        overrides=overrides,
        loaders=tuple(loaders),
    )


def candidates(knob: Knob, value: object, now: Change, found: Seen) -> list[Candidate]:
    """Places named like the knob that hold `value` (None: any), the likeliest first, each once.

    Where none is, places that hold it under a name that may mean the knob; a value of 1 is too common for that.
    """
    named = _fitting(knob, knob.names, value, now, found)
    if named or knob.vague is None or value in (None, 1):
        return named
    return [c for c in _fitting(knob, knob.vague, value, now, found) if c.value == value]


def _fitting(knob: Knob, names: re.Pattern[str], value: object, now: Change, found: Seen) -> list[Candidate]:
    unique: dict[Binding, Candidate] = {}
    for candidate in _places(knob, names, now, found):
        unique.setdefault(candidate.binding, candidate)
    fitting = [c for c in unique.values() if value is None or c.value in (value, _DEFAULT)]
    # Stable: the order of sources stays.
    return sorted(fitting, key=lambda c: (c.value is _DEFAULT, _doubt(str(c.binding))))


def _doubt(name: str) -> bool:
    """A name with further words in it may be something else: MAX_GPU_BATCH_SIZE."""
    return bool(re.search(r"max|min|limit|default", name, re.IGNORECASE))


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


def _places(knob: Knob, names: re.Pattern[str], now: Change, found: Seen) -> Iterator[Candidate]:
    def fits(name: str) -> bool:
        plain = name.lstrip("-+").rpartition(".")[2] if "." in name else name.lstrip("-+")
        return bool(names.search(plain)) and not knob.unlike.search(name)

    for binding in on_command_line(now):
        if fits(str(binding).rstrip("=")):
            yield Candidate(binding=binding, value=binding.now(now), where="command line")
    for key, value in found.overrides.items():
        if fits(key):
            yield Candidate(binding=Override(key), value=value, where="hydra")
    yield from _in_targets(knob, found.overrides)
    for path in found.files:
        for entry in config_file.entries(path, now.text(path)):
            if fits(entry.key):
                yield Candidate(
                    binding=FileKey(path, entry.key), value=entry.value, where=f"{path.name}:{entry.line}"
                )
    for flag, value in found.flags.items():
        if fits(flag):
            yield Candidate(binding=Flag(flag), value=value, where="parser")
    for flag, negated in found.switches.items():
        if fits(flag):
            switch = Switch(flag, negated)
            yield Candidate(binding=switch, value=switch.now(now), where="parser")
    for path in found.sources:
        yield from _in_code(path, now, fits)
    for path in found.sources:
        yield from _in_calls(path, knob, now, found.loaders)


def _in_targets(knob: Knob, overrides: Mapping[str, object]) -> Iterator[Candidate]:
    """What hydra makes from its config (`_target_: torch.optim.AdamW`) would take this knob, and was not told it."""
    for key, made in overrides.items():
        section, _, last = key.rpartition(".")
        if last != "_target_" or not section:
            continue
        callee = str(made).rpartition(".")[2]
        for argument in knob.arguments:
            told = f"{section}.{argument.name}"
            if (
                re.fullmatch(argument.callee, callee)
                and argument.beside in str(made)
                and told not in overrides
            ):
                yield Candidate(binding=Override("+" + told), value=_DEFAULT, where="hydra")


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
            yield Candidate(binding=Flag(site.spelt), value=site.value, where=f"{path.name}:{site.line}")
        elif site.how == "variable":
            users = config.variable(site.spelt)
            value = site.value if users is None else value_of(users)
            yield Candidate(binding=Variable(site.spelt), value=value, where=f"{path.name}:{site.line}")
        else:
            same = [s for s in sites if s.name == site.name]
            binding = InCode(path, site.name, same.index(site))
            yield Candidate(binding=binding, value=site.value, where=f"{path.name}:{site.line}")


def _in_calls(path: Path, knob: Knob, now: Change, loaders: Sequence[str]) -> Iterator[Candidate]:
    """Calls that would take the knob as an argument and do not say it. The training's own loader, if it was seen."""
    try:
        text = now.text(path)
        made = calls.calls(text)
    except (SyntaxError, UnicodeDecodeError, OSError):
        return
    takes = [a for a in knob.arguments if a.beside in text]
    lines = {
        int(line) for place in loaders for file, _, line in [place.rpartition(":")] if Path(file) == path
    }
    counts: dict[str, int] = {}
    for call in made:
        number = counts.get(call.callee, 0)
        counts[call.callee] = number + 1
        argument = next((a.name for a in takes if re.fullmatch(a.callee, call.callee)), None)
        if argument is None or call.opened:
            continue
        feeds = any(call.line <= line <= call.end_line for line in lines)
        if call.callee == "DataLoader" and lines and not feeds:
            continue
        binding = InCall(path, call.callee, argument, number)
        yield Candidate(binding=binding, value=binding.now(now), where=f"{path.name}:{call.line}")
