"""What the user calls a setting: the flag on their command line or the key in their config file.

Found by name and by value: a flag about batches whose value is the micro-batch that was observed. Only a way of
speaking; nothing is changed by it, and where no name is found the fix is told in general words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upshift.command import Command

_WORDS = {
    "micro_batch": ("batch_size", "batch", "bsz", "bs"),
    "grad_accum": ("accum", "accumulation"),
    "workers": ("workers", "num_workers"),
    "length": ("max_len", "max_length", "seq_len", "max_seq", "block_size", "length"),
    "evaluation": ("eval_every", "eval_steps", "eval_interval", "val_interval", "validate_every", "eval"),
    "saving": ("save_every", "save_steps", "save_interval", "checkpoint_every", "ckpt", "save"),
    "logging": ("log_every", "log_interval", "logging_steps", "print_every", "print_freq", "log"),
}
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Names:
    """Settings visible from outside: (name, value, where)."""

    settings: tuple[tuple[str, str, str], ...]

    def of(self, knob: str, value: object = None) -> str | None:
        """The user's own name of `knob`, as `--batch_size` or `training.batch_size in c.yaml`."""
        found = [
            (name, where)
            for name, text, where in self.settings
            if any(word in name.lower().replace("-", "_") for word in _WORDS[knob])
            and (value is None or text == str(value))
            and not (knob == "micro_batch" and re.search("eval|val_|test", name.lower()))
        ]
        if not found:
            return None
        name, where = found[0]
        return name if where == "command" else f"{name} in {where}"


def names(command: Command) -> Names:
    """Read the flags of the command and the config files it names."""
    return Names(settings=tuple(_from_arguments(command.argv)) + tuple(_from_files(command)))


def _from_arguments(argv: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    for argument, following in zip(argv, (*argv[1:], ""), strict=True):
        if "=" in argument:
            name, _, value = argument.partition("=")
            yield name, value, "command"
        elif argument.startswith("-") and following and not following.startswith("--"):
            yield argument, following, "command"


def _from_files(command: Command) -> Iterator[tuple[str, str, str]]:
    for argument in command.argv:
        path = Path(argument.rpartition("=")[2])
        if path.suffix not in (".yaml", ".yml", ".json", ".toml"):
            continue
        whole = path if path.is_absolute() else command.cwd / path
        try:
            if whole.stat().st_size > _MOST_BYTES:
                continue
            text = whole.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        for name, value in _keys(path.suffix, text):
            yield name, value, path.name


def _keys(suffix: str, text: str) -> Iterator[tuple[str, str]]:
    if suffix == ".json":
        try:
            yield from _flat(json.loads(text), "")
        except ValueError:
            return
        return
    # Indented keys of YAML and sections of TOML, without a parser: names and plain values are enough.
    path: list[tuple[int, str]] = []
    for line in text.splitlines():
        if section := re.match(r"\s*\[([\w.]+)\]\s*$", line):
            path = [(-1, section.group(1))]
            continue
        match = re.match(r"(\s*)([\w.-]+)\s*[:=]\s*([^#]*)", line)
        if not match:
            continue
        indent, key, value = len(match.group(1)), match.group(2), match.group(3).strip().strip("'\"")
        while path and path[-1][0] >= indent:
            path.pop()
        name = ".".join([*(p for _, p in path), key])
        if value:
            yield name, value
        else:
            path.append((indent, key))


def _flat(value: Any, prefix: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    elif not isinstance(value, list):
        yield prefix, str(value)
