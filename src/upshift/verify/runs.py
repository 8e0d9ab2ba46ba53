"""One run for verification: launched, watched until enough steps are in, and read as a `Trace`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from upshift import session
from upshift.errors import LeverFailed, NothingMeasured, UpshiftError
from upshift.knobs.change import Change
from upshift.knobs.discover import seen
from upshift.measure.profile import training
from upshift.outcomes import failed, why_nothing
from upshift.session import Outcome, Settings, Snapshot
from upshift.verify.trace import Trace, read

SEED = 20261
_NEEDED = ("witness", "losses", "import of ")
"""Probes without which a trace would not be whole."""
_LONGEST_EPOCH = 4
"""An epoch's end is waited for if it comes within this many times the steps asked for."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """What to run."""

    change: Change
    permute: int | None = None
    """Batches a step takes: their order is turned round."""
    double: bool = False
    discover: bool = False
    """Note where its settings come from."""
    label: str = ""
    """For the progress line."""

    @property
    def levers(self) -> Mapping[str, Any]:
        """For the agent."""
        return {"seed": SEED, "silence": True, "permute": self.permute, "double": self.double}


Run = Callable[[Side, int, bool], Trace]
"""(side, steps, go on to the end of a short epoch) → its trace. Raises the error that says why there is none."""


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """Runs a side for real. An instance is a `Run`."""

    isolate: str = "auto"
    pass_output: bool = False
    first_step_seconds: float = 300.0
    timeout_seconds: float = 1800.0
    tell: Callable[[Side, int, int, Snapshot], None] = field(default=lambda *_: None)

    def __call__(self, side: Side, steps: int, whole_epoch: bool) -> Trace:
        """Launch, wait for the steps, end it."""

        def watch(snapshot: Snapshot) -> str | None:
            log = training(snapshot.processes)
            seen = min((len(p.witness) for p in snapshot.processes if p.active), default=0)
            wanted = steps
            if whole_epoch and log is not None:
                wanted = max(steps, _epoch_end(log, steps))
            self.tell(side, seen, wanted, snapshot)
            if seen >= wanted:
                return "enough"
            if any(p.lever_failures for p in snapshot.processes):
                return "lever"
            if not seen and snapshot.elapsed > self.first_step_seconds:
                return "no step"
            return "timeout" if snapshot.elapsed > self.timeout_seconds else None

        outcome = session.launch(
            side.change.command,
            Settings(
                isolate=self.isolate,
                pass_output=self.pass_output,
                levers={**side.change.levers, **side.levers},
                witness=True,
                discover=side.discover,
                files=side.change.files,
                environment={"PYTHONHASHSEED": "0", **side.change.environment},
            ),
            watch,
        )
        return _trace(outcome, side, self)


def _trace(outcome: Outcome, side: Side, launcher: Launcher) -> Trace:
    failure = next((f for p in outcome.processes for f in p.lever_failures), None)
    if failure is not None:
        raise LeverFailed(f"the run cannot be steered: {failure['lever']}: {failure['error']}")
    broken = [f for p in outcome.processes for f in p.probe_failures if f["probe"].startswith(_NEEDED)]
    if broken:
        raise LeverFailed(f"the run cannot be followed: {broken[0]['error']}")
    trace = read(outcome)
    if trace is None or failed(outcome) or outcome.ended_by == "interrupt":
        raise _why(outcome, launcher)
    return replace(trace, seen=seen(outcome.processes, side.change)) if side.discover else trace


def _why(outcome: Outcome, launcher: Launcher) -> UpshiftError:
    log = training(outcome.processes)
    found = why_nothing(
        outcome, first_step_seconds=launcher.first_step_seconds, steps=len(log.witness) if log else 0
    )
    return found or NothingMeasured("the run made no optimizer step that could be followed")


def _epoch_end(log: Any, steps: int) -> int:
    """Steps until one past the end of the epoch, if that is near and a window may be partial there; else 0."""
    loader = next((e for e in log.loaders if not e["evaluation"]), None)
    fetched = [sum(len(m["indices"]) for m in e["micro"]) for e in log.witness[:3]]
    if loader is None or not loader["batches"] or not fetched or not fetched[0]:
        return 0
    until = -(-int(loader["batches"]) // int(fetched[0])) + 1
    return until if until <= _LONGEST_EPOCH * steps else 0
