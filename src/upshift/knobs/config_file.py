"""Values in config files: YAML, JSON, TOML and plain `key = value` lines, changed in place.

The parser only says where a value stands; the new one is put there and every other byte stays as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUFFIXES = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".properties", ".gin")
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One scalar value."""

    key: str
    """Dotted path."""
    value: object
    line: int
    start: int
    stop: int


def entries(path: Path, text: str) -> list[Entry]:
    """All scalar values of a file; empty for one that cannot be read as its name promises."""
    if len(text) > _MOST_BYTES:
        return []
    if path.suffix in (".yaml", ".yml", ".json"):
        return list(_yaml(text))
    return list(_lines(text))


def with_value(text: str, entry: Entry, value: object) -> str:
    """The text with this value replaced, in the style it had."""
    old = text[entry.start : entry.stop]
    new = json.dumps(value) if not isinstance(value, str) else value
    if isinstance(value, str) and old[:1] in "\"'" and old[:1]:
        new = old[0] + value + old[0]
    return text[: entry.start] + new + text[entry.stop :]


def _yaml(text: str) -> Iterator[Entry]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

    try:
        root = YAML(typ="rt").compose(text)
    except YAMLError:
        return

    def walk(node: Any, key: str) -> Iterator[Entry]:
        if isinstance(node, MappingNode):
            for name, value in node.value:
                yield from walk(value, f"{key}.{name.value}" if key else str(name.value))
        elif isinstance(node, SequenceNode):
            for number, value in enumerate(node.value):
                yield from walk(value, f"{key}.{number}")
        elif isinstance(node, ScalarNode):
            start, stop = node.start_mark.index, node.end_mark.index
            yield Entry(
                key=key, value=scalar(node.value), line=node.start_mark.line + 1, start=start, stop=stop
            )

    if root is not None:
        yield from walk(root, "")


def _lines(text: str) -> Iterator[Entry]:
    """Sections in brackets and `key = value` or `key: value` lines: TOML's plain part, ini files, home-made ones."""
    section = ""
    at = 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if header := re.match(r"\s*\[+([^\]]+)\]+\s*(#.*)?$", line):
            section = header.group(1).strip().strip("\"'") + "."
        elif match := re.match(
            r"\s*([\w.\-\"']+)\s*[=:]\s*(\"[^\"]*\"|'[^']*'|[^#;\s][^#;\n]*?)\s*([#;].*)?$", line
        ):
            yield Entry(
                key=section + match.group(1).strip("\"'"),
                value=scalar(match.group(2).strip("\"'")),
                line=number,
                start=at + match.start(2),
                stop=at + match.end(2),
            )
        at += len(line)


def scalar(text: str) -> object:
    """A number if it reads as one."""
    for kind in (int, float):
        try:
            return kind(text.replace("_", ""))
        except ValueError:
            continue
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return text
