"""Trials that are done stay done: an append-only file, replayed at start, tolerant of a torn last line."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from upshift.knobs.change import Change
from upshift.knobs.discover import Seen
from upshift.search.bench import Learned
from upshift.search.confirm import Heat
from upshift.search.trial import Trial

SCHEMA = "upshift.journal/6"
FOLDER = ".upshift"


def key(change: Change, memory_bytes: int | None) -> str:
    """Same key, same run: the command line, the files as changed, variables, levers, the memory allowed."""
    text = json.dumps(
        [
            list(change.command.argv),
            str(change.command.cwd),
            {str(path): content for path, content in sorted(change.files.items())},
            dict(sorted(change.environment.items())),
            dict(sorted(change.levers.items())),
            memory_bytes,
            [_stamp(path) for path in _named_files(change)],
        ]
    )
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def _named_files(change: Change) -> list[Path]:
    return [p for a in change.command.argv[1:] if (p := change.command.cwd / a).is_file() and len(a) < 1000]


def _stamp(path: Path) -> list[Any]:
    status = path.stat()
    return [str(path), status.st_size, int(status.st_mtime)]


class Journal:
    """The trials of one project folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FOLDER / "trials.jsonl"
        self._known: dict[str, dict[str, Any]] = {}
        self._seen: dict[str, dict[str, Any]] = {}
        self._learned: dict[str, dict[str, Any]] = {}
        self._heats: dict[str, list[Heat]] = {}
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue  # torn: the process died while writing it
                if entry.get("schema") != SCHEMA:
                    continue
                if "heat" in entry:
                    heat = tuple((before, after) for before, after in entry["heat"])
                    self._heats.setdefault(entry["of"], []).append(heat)
                elif "learned" in entry:
                    self._learned[entry["key"]] = entry["learned"]
                else:
                    self._known[entry["key"]] = entry["trial"]
                    self._seen[entry["key"]] = entry.get("seen") or {}

    def get(self, name: str) -> Trial | None:
        """The trial of this key, if it was finished before."""
        found = self._known.get(name)
        return Trial(**found) if found else None

    def seen(self, name: str) -> Seen | None:
        """What that run showed of its settings."""
        found = self._seen.get(name)
        if not found:
            return None
        return Seen(
            flags=found["flags"],
            files=tuple(Path(p) for p in found["files"]),
            sources=tuple(Path(p) for p in found["sources"]),
            switches=found["switches"],
            overrides=found["overrides"],
            loaders=tuple(found["loaders"]),
        )

    def heats(self, name: str) -> list[Heat]:
        """Those that ran before."""
        return list(self._heats.get(name, ()))

    def add_heat(self, name: str, heat: Heat) -> None:
        """Write it down."""
        known = self._heats.setdefault(name, [])
        known.append(heat)
        self._write({"schema": SCHEMA, "key": f"{name}-{len(known)}", "of": name, "heat": heat})

    def learned(self, name: str) -> Learned | None:
        """How that run's loss fell, if it was finished before."""
        found = self._learned.get(name)
        return Learned(losses=tuple(found["losses"]), validation=found["validation"]) if found else None

    def add_learned(self, name: str, learned: Learned) -> None:
        """Write it down."""
        self._learned[name] = {"losses": list(learned.losses), "validation": learned.validation}
        self._write({"schema": SCHEMA, "key": name, "learned": self._learned[name]})

    def add(self, name: str, trial: Trial, shown: Seen | None = None) -> None:
        """Write it down."""
        self._known[name] = trial.document()
        entry: dict[str, Any] = {"schema": SCHEMA, "key": name, "trial": trial.document()}
        if shown is not None:
            entry["seen"] = self._seen[name] = {
                "flags": dict(shown.flags),
                "files": [str(p) for p in shown.files],
                "sources": [str(p) for p in shown.sources],
                "switches": dict(shown.switches),
                "overrides": dict(shown.overrides),
                "loaders": list(shown.loaders),
            }
        self._write(entry)

    def _write(self, entry: Mapping[str, Any]) -> None:
        """On the disk before this returns."""
        self.path.parent.mkdir(exist_ok=True)
        ignore = self.path.parent / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
        torn = self.path.exists() and self.path.stat().st_size and not self.path.read_bytes().endswith(b"\n")
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(("\n" if torn else "") + json.dumps(entry) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
