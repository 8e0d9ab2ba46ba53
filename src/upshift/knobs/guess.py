"""Where a knob is likely set, by name and by the value that was observed. Only a guess: the run must confirm it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from upshift.errors import NotBound
from upshift.knobs import code, config_file
from upshift.knobs.binding import Binding, FileKey, Flag, InCode, Override, config_files
from upshift.knobs.change import Change

_NAMES = {
    "micro_batch": (
        r"(?:^|[._-])(?:per[_-]device[_-])?(?:train[_-])?(?:micro[_-]?)?batch[_-]?size$|^bsz?$|(?:^|[._-])batch$"
        r"|device[_-]batch[_-]size$|mini[_-]?batch(?:[_-]?size)?$|micro[_-]?batch(?:[_-]?size)?$|train[_-]batch[_-]size$"
        r"|samples[_-]per[_-]gpu$|^b$"
    ),
    "grad_accum": r"accum",
}
_NOT = {"micro_batch": r"eval|valid|val[_-]|test|total|global|effective", "grad_accum": r"$^"}


class Observed(Protocol):
    """What a run showed."""

    @property
    def micro_batch(self) -> int | None:
        """Samples of a micro-batch."""

    @property
    def grad_accum(self) -> int | None:
        """Micro-batches of a step."""


def guess(
    now: Change, settings: Mapping[str, object], seen: Observed, given: Mapping[str, Binding]
) -> dict[str, Binding]:
    """A binding for each setting that has none. Raises NotBound where nothing fits, or too much does."""
    found: dict[str, Binding] = {}
    for knob in settings:
        if knob in given:
            continue
        value = {"micro_batch": seen.micro_batch, "grad_accum": seen.grad_accum}.get(knob)
        candidates = list(dict.fromkeys(candidates_for(now, knob, value)))
        if not candidates:
            raise NotBound(
                f"nothing in the command, its config files or its script looks like {knob} = {value}",
                hint=f"say where it is set: --bind {knob}=--flag, --bind {knob}=config.yaml:key, or "
                f"--bind {knob}=train.py:NAME",
            )
        found[knob] = candidates[0]
    return found


def candidates_for(now: Change, knob: str, value: object) -> Iterator[Binding]:
    """Places that carry the knob's name and the observed value: command line first, then files, then code."""

    def fits(name: str, there: object) -> bool:
        plain = name.lower().lstrip("-+")
        return bool(
            knob in _NAMES
            and re.search(_NAMES[knob], plain)
            and not re.search(_NOT[knob], plain)
            and (value is None or there == value)
        )

    for binding in on_command_line(now):
        if fits(str(binding).rstrip("="), binding.now(now)):
            yield binding
    for path in config_files(now.command):
        for entry in config_file.entries(path, now.text(path)):
            if fits(entry.key, entry.value):
                yield FileKey(path, entry.key)
    script = now.command.script
    if script is None:
        return
    if script.suffix == ".py":
        yield from _in_code(now, script.resolve(), fits)
    else:
        text = now.text(script.resolve())
        for name in dict.fromkeys(re.findall(r"(?<![\w-])(--?[A-Za-z][\w-]*)", text)):
            if fits(name, Flag(name).now(now)):
                yield Flag(name)
        for named in dict.fromkeys(re.findall(r"[\w./-]+\.py", text)):
            path = (now.command.cwd / named).resolve()
            if path.is_file():
                yield from _in_code(now, path, fits)


def on_command_line(now: Change) -> Iterator[Binding]:
    """Flags and overrides as they stand there."""
    for argument in now.command.argv[1:]:
        name = argument.partition("=")[0]
        if re.fullmatch(r"--?[A-Za-z][\w-]*", name):
            yield Flag(name)
        elif "=" in argument and re.fullmatch(r"\+*[A-Za-z][\w.]*", name):
            yield Override(name.lstrip("+"))


def _in_code(now: Change, path: Path, fits: object) -> Iterator[Binding]:
    assert callable(fits)
    try:
        sites = code.sites(now.text(path))
    except (SyntaxError, UnicodeDecodeError):
        return
    for site in sites:
        if not fits(site.last, site.value):
            continue
        if site.how == "flag":
            yield Flag("--" + site.last)
        else:
            same = [s for s in sites if s.name == site.name]
            yield InCode(path, site.name, same.index(site))
