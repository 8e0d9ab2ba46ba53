"""After the measurement the run goes on for some seconds, for experiments: which, and until when."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

from upshift import config
from upshift.eventlog import Event, ProcessLog
from upshift.inject.upshift_agent.events import CHECKPOINT, DATA, FORWARD, LOGGING
from upshift.measure.enough import Progress
from upshift.measure.profile import training
from upshift.session import Snapshot

SECONDS = 20.0
"""For all experiments together, and some steps on top; each has its own limit below that."""
_STEPS = 10
_PATIENCE = 20.0
"""How much longer the answers may take to come: a long step has to end first."""
_WAITS = 0.02
_ASIDE = 0.04
_BLOCK_SECONDS, _LONGEST_BLOCK = 0.4, 1.2
"""Of steps with or without saving or logging."""
_MEASURED = ("steady", "steps", "seconds")


class SecondAct:
    """Begins the experiments when there is enough, and ends the launch when they are done."""

    stage = "trying fixes"

    def __init__(self, *, wanted: tuple[str, ...] | None) -> None:
        self.wanted = wanted
        self.begun = False
        self._reason = ""
        self._began_at = 0.0
        self._seconds = SECONDS

    def after(self, reason: str | None, snapshot: Snapshot) -> str | None:
        """`reason` to end, unless the experiments come first."""
        log = training(snapshot.processes)
        if (
            reason not in _MEASURED
            or self.wanted == ()
            or not snapshot.running
            or snapshot.experiment is None
            or log is None
        ):
            return reason
        chosen = plan(log)
        if self.wanted is not None:
            chosen["kinds"] = [kind for kind in chosen["kinds"] if kind in self.wanted]
        self._seconds = chosen["seconds"]
        snapshot.experiment(chosen)
        self.begun = True
        self._reason = reason
        self._began_at = time.monotonic()
        return None

    def __call__(self, snapshot: Snapshot) -> str | None:
        """The first reason, once the experiments have ended, failed the program or run out of time."""
        log = training(snapshot.processes)
        over = log is None or log.experiments_ended or not snapshot.running
        return self._reason if over or time.monotonic() - self._began_at > self._seconds + _PATIENCE else None

    def progress(self, measuring: Progress) -> Progress:
        """What to show."""
        if not self.begun:
            return measuring
        passed = time.monotonic() - self._began_at
        return replace(
            measuring, stage=self.stage, fraction=min(1.0, passed / self._seconds), left_seconds=None
        )


def plan(log: ProcessLog) -> dict[str, Any]:
    """What is worth trying on this run, in order."""
    steps = log.steps[1:]
    total = sum(sum(s["phases"]) for s in steps) or 1.0
    kinds = []  # replay first: large blocks allocated and freed by the others change how malloc serves the loop
    if sum(s["phases"][DATA] for s in steps) / total >= _WAITS and log.loaders:
        kinds.append("replay")
    beside = _aside(steps, total)
    if beside:
        kinds.append("aside")
    kinds.append("optimizer")
    if log.loaders:
        kinds.append("loading")
    if any(s["phases"][FORWARD] for s in steps) and not _sharded(log):
        kinds.append("calls")
    kinds.append("ceiling")
    seconds = SECONDS + _STEPS * total / max(1, len(steps))
    return {"kinds": kinds, "variants": _variants(log), "aside": beside, "seconds": seconds}


def _aside(steps: list[Event], total: float) -> dict[str, int]:
    """Steps of a block with and without saving or logging, where these take their share and come often enough."""
    found = {}
    each = total / max(1, len(steps))
    for name, phase in (("saving", CHECKPOINT), ("logging", LOGGING)):
        having = sum(s["phases"][phase] > 0 for s in steps)
        if having < 2 or sum(s["phases"][phase] for s in steps) / total < _ASIDE:
            continue
        every = math.ceil(len(steps) / having)
        block = every * math.ceil(_BLOCK_SECONDS / (each * every))
        if block * each <= _LONGEST_BLOCK:
            found[name] = block
    return found


def _sharded(log: ProcessLog) -> bool:
    """Several ranks that are not plain DDP: a call of the model by one of them alone could wait for ever."""
    ranks = log.active["world_size"] if log.active else 1
    return ranks > 1 and not (log.modules and log.modules["distributed"])


def _variants(log: ProcessLog) -> list[str]:
    """Ways to make the model's calls, see the agent's experiments/calls.py."""
    cores = config.cores()
    threads = log.facts["threads"] if log.facts else 1
    counts = sorted({1, cores // 2, cores} - {0, threads})
    precisions = ["bfloat16", "no autocast", "float32"]
    device = log.steps[-1]["device"] if log.steps else "cpu"
    always = ["joined", *(["kept"] if log.modules and log.modules["recomputed"] else [])]
    if device == "cuda":
        return [*always, *precisions, "float16"]
    return [*always, *precisions, *(f"threads:{n}" for n in counts)]
