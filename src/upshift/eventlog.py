"""Reads what the agents wrote: one `ProcessLog` per Python process of the launch."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upshift.errors import MachineProblem
from upshift.inject.upshift_agent.events import SCHEMA, STEP_FIELDS

Event = dict[str, Any]

# What is not taken any more once the experiments have begun.
_MEASURED = ("samples", "modules", "loader", "fetched", "facts", "compiled", "syncs", "cost")


@dataclass
class ProcessLog:
    """One process's events so far, sorted by kind."""

    path: Path
    header: Event = field(default_factory=dict)
    torch: str | None = None
    too_old: Event | None = None
    active: Event | None = None
    steps: list[Event] = field(default_factory=list)
    gpu: dict[int, list[float]] = field(default_factory=dict)
    samples: list[Event] = field(default_factory=list)
    modules: Event | None = None
    loaders: list[Event] = field(default_factory=list)
    fetched: list[Event] = field(default_factory=list)
    facts: Event | None = None
    compiled: list[Event] = field(default_factory=list)
    syncs: Event | None = None
    trace: Event | None = None
    experiments: dict[str, Event] = field(default_factory=dict)
    experiments_from: int | None = None
    """Index of the first step group that is an experiment and no measurement."""
    experiments_ended: bool = False
    witness_models: dict[int, Event] = field(default_factory=dict)
    witness: list[Event] = field(default_factory=list)
    settings: list[Event] = field(default_factory=list)
    draws: list[Event] = field(default_factory=list)
    loss_sites: list[Event] = field(default_factory=list)
    trainer: Event | None = None
    lever_failures: list[Event] = field(default_factory=list)
    longest: list[Event] = field(default_factory=list)
    """Its batches were made of its longest samples."""
    turns: list[float] = field(default_factory=list)
    """Seconds of each turn of a race."""
    cost: Event | None = None
    probe_failures: list[Event] = field(default_factory=list)
    ended: str | None = None
    dropped: int = 0
    torn: int = 0
    """Lines that could not be read: a full disk, or a process killed while writing."""

    @property
    def pid(self) -> int:
        """The process."""
        return int(self.header.get("pid", 0))

    @property
    def rank(self) -> int:
        """Rank in the process group, 0 alone."""
        return int(self.active["rank"]) if self.active else 0

    def take(self, line: str) -> None:
        """Add one line of the file."""
        try:
            event = json.loads(line)
        except ValueError:
            self.torn += 1
            return
        if "schema" in event:
            if event["schema"] != SCHEMA:
                raise MachineProblem(
                    f"an agent speaks {event['schema']!r}, this upshift reads {SCHEMA!r}",
                    hint="another version of upshift is on the program's PYTHONPATH; remove it",
                )
            self.header = event
            return
        self.dropped = event["dropped"]
        kind = event["kind"]
        if kind == "steps":
            rows = (dict(zip(STEP_FIELDS, row, strict=True)) for row in event["rows"])
            last = self.experiments_from
            self.steps.extend(row for row in rows if last is None or row["index"] < last)
        elif self.experiments_from is not None and kind in _MEASURED:
            return
        elif kind in ("modules", "facts", "syncs", "trace", "trainer"):
            setattr(self, kind, event)
        elif kind == "loader":
            self.loaders.append(event)
        elif kind == "fetched":
            self.fetched.append(event)
        elif kind == "compiled":
            self.compiled.append(event)
        elif kind == "experiments_begin":
            self.experiments_from = event["step"]
        elif kind == "experiment":
            self.experiments[event["name"]] = event
        elif kind == "experiments_end":
            self.experiments_ended = True
        elif kind == "gpu":
            self.gpu[event["index"]] = event["phases"]
        elif kind == "samples":
            self.samples.append(event)
        elif kind == "cost":
            self.cost = event
        elif kind == "torch":
            self.torch = event["version"]
        elif kind == "active":
            self.active, self.torch = event, event["torch"]
        elif kind == "too_old":
            self.too_old = event
        elif kind == "witness":
            self.witness.append(event)
        elif kind == "witness_model":
            self.witness_models.setdefault(event["optimizer"], event)
        elif kind == "settings":
            self.settings.append(event)
        elif kind == "draws":
            self.draws.append(event)
        elif kind == "loss_site":
            self.loss_sites.append(event)
        elif kind == "longest":
            self.longest.append(event)
        elif kind == "turn":
            self.turns.append(event["seconds"])
        elif kind == "lever_failed":
            self.lever_failures.append(event)
        elif kind == "probe_failed":
            self.probe_failures.append(event)
        elif kind == "end":
            self.ended = event["why"]


class EventLog:
    """Follows a folder of event files while they grow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._logs: dict[Path, ProcessLog] = {}
        self._read: dict[Path, int] = {}

    def poll(self) -> tuple[ProcessLog, ...]:
        """Read what is new; all logs so far, oldest process first."""
        for path in sorted(self.folder.glob("*.jsonl")):
            log = self._logs.setdefault(path, ProcessLog(path))
            with path.open("rb") as stream:
                stream.seek(self._read.get(path, 0))
                data = stream.read()
            whole = data[: data.rfind(b"\n") + 1]  # a line still being written waits for the next poll
            self._read[path] = self._read.get(path, 0) + len(whole)
            for line in whole.decode(errors="replace").splitlines():
                if line:
                    log.take(line)
        return tuple(sorted(self._logs.values(), key=lambda log: log.header.get("mono", 0.0)))
