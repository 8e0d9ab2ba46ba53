"""One instrumented launch of the user's command → `Outcome`.

The session knows processes, folders and signals; it knows nothing of what is being measured. A watcher given by
the caller looks at the events as they come and says when it has seen enough.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upshift import isolation
from upshift.command import Command
from upshift.errors import MachineProblem
from upshift.eventlog import EventLog, ProcessLog
from upshift.keeper_process import KeeperProcess, Refused
from upshift.resources import INTERVAL_SECONDS, Resources, ResourceWatch
from upshift.rundir import RunDir, write_json

POLL_SECONDS = 0.2
_LOW_DISK_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to launch."""

    keep_outputs: bool = False
    """Let the run write where it would without upshift."""
    isolate: str = "auto"
    """`auto`: overlay, else redirect; or one of them by name, for tests and for stubborn machines."""
    trace: bool = False
    """Keep a few steps mark by mark."""
    pass_output: bool = False
    """Copy the program's output to stderr while it runs."""
    levers: Mapping[str, Any] = field(default_factory=dict)
    """What the agent changes in the run, by name; see the agent's levers/."""
    witness: bool = False
    """Record what every optimizer step is made of."""
    hold: bool = True
    """With a witness: updates are undone and the parameters put on a fixed walk."""
    files: Mapping[Path, str] = field(default_factory=dict)
    """Files of the user's that this run sees with another content; the files themselves stay as they are."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables set for this run."""
    memory_bytes: int | None = None
    """Most memory for data a process of the run may have (RLIMIT_DATA)."""
    discover: bool = False
    """Note where the run's settings come from."""
    turns: int = 0
    """In a race: optimizer steps after which the run goes to sleep by itself."""

    def for_agent(self) -> dict[str, Any]:
        """What goes down to the agent."""
        asked: dict[str, Any] = {}
        if self.trace:
            asked["trace"] = True
        if self.levers:
            asked["levers"] = dict(self.levers)
        if self.discover:
            asked["discover"] = True
        if self.turns:
            asked["turns"] = self.turns
        if self.witness:
            asked["witness"] = {"hold": self.hold}
        return asked


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What is known while the launch is going on."""

    elapsed: float
    """Seconds since the command was started."""
    processes: tuple[ProcessLog, ...]
    running: bool
    """False once the command and all it started are gone."""
    experiment: Callable[[dict[str, Any]], None] | None
    """Lets the agent's experiments begin: the steps after this are no measurement. None where outputs are kept."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one launch."""

    command: Command
    processes: tuple[ProcessLog, ...]
    started: float
    """`time.perf_counter()` when the command was started; the agents' `mono` is the same clock."""
    seconds: float
    ended_by: str
    """The watcher's reason, or `program`, or `interrupt`."""
    exit_code: int | None
    """Of the command itself; negative for a signal; None if upshift ended it."""
    isolation: str
    """`overlay`, `redirect` or `none`."""
    isolation_note: str | None
    """Why not `overlay`, where it is not."""
    stdout: str
    stderr: str
    """The program's output, whole."""
    resources: Resources
    disk_full: bool


Watcher = Callable[[Snapshot], "str | None"]


def launch(command: Command, settings: Settings, watch: Watcher) -> Outcome:
    """Run the command until it ends or `watch` returns a reason to end it."""
    if settings.keep_outputs:
        return _launch(command, settings, watch, "none", None)
    if settings.isolate in ("auto", "overlay"):
        try:
            return _launch(command, settings, watch, "overlay", None)
        except Refused as refusal:
            if settings.isolate == "overlay":
                raise MachineProblem(f"no overlay on this machine: {refusal}") from refusal
            return _launch(command, settings, watch, "redirect", str(refusal))
    return _launch(command, settings, watch, "redirect", None)


@contextlib.contextmanager
def opened(command: Command, settings: Settings, kind: str) -> Iterator[tuple[KeeperProcess, RunDir]]:
    """The command, started; gone with all it started at the end. Raises `Refused` where no overlay can be laid."""
    if settings.files and kind != "overlay":
        raise MachineProblem(
            "this run needs files with another content, and no overlay can be laid on this machine",
            hint="bind the setting to a flag of the command instead: --bind micro_batch=--batch-size",
        )
    plan = isolation.plan(command, settings.files) if kind == "overlay" else None
    run = RunDir.create(avoid=plan.roots if plan else ())
    try:
        with KeeperProcess(
            command,
            run,
            kind,
            plan,
            probe=not settings.keep_outputs,
            asked=settings.for_agent(),
            environment=settings.environment,
            memory_bytes=settings.memory_bytes,
        ) as keeper:
            yield keeper, run
    finally:
        run.remove()


def _launch(command: Command, settings: Settings, watch: Watcher, kind: str, note: str | None) -> Outcome:
    with opened(command, settings, kind) as (keeper, run):
        reason, log, watcher = _follow(keeper, run, settings, watch)
        exit_code = keeper.exit_code  # what comes after this is our own doing
        keeper.stop(polite=settings.keep_outputs)
        processes = log.poll()
        return Outcome(
            command=command,
            processes=processes,
            started=keeper.started,
            seconds=time.perf_counter() - keeper.started,
            ended_by=reason,
            exit_code=exit_code,
            isolation=kind,
            isolation_note=note,
            stdout=_text(run.stdout),
            stderr=_text(run.stderr),
            resources=watcher.summary(),
            disk_full=shutil.disk_usage(run.root).free < _LOW_DISK_BYTES,
        )


def _follow(
    keeper: KeeperProcess, run: RunDir, settings: Settings, watch: Watcher
) -> tuple[str, EventLog, ResourceWatch]:
    """Poll events and resources until somebody has had enough."""
    log = EventLog(run.events)
    resources = ResourceWatch(root_pid=keeper.pid)
    measuring = True

    def experiment(plan: dict[str, Any]) -> None:
        nonlocal measuring
        measuring = False
        write_json(run.experiments_file, plan)

    next_sample = 0.0
    with stop_signals() as stopped, _output(run, settings) as copy_output:
        while True:
            keeper.poll(POLL_SECONDS)
            processes = log.poll()
            now = time.perf_counter()
            if now >= next_sample and measuring and not settings.witness:  # a compared run is not measured
                next_sample = now + INTERVAL_SECONDS
                resources.sample([p.pid for p in processes if p.active], now)
            copy_output()
            if stopped:
                return "interrupt", log, resources
            snapshot = Snapshot(
                elapsed=now - keeper.started,
                processes=processes,
                running=not keeper.gone,
                experiment=None if settings.keep_outputs else experiment,
            )
            reason = watch(snapshot)
            if reason is not None:
                return reason, log, resources
            if keeper.gone:
                return "program", log, resources


@contextlib.contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Ctrl-C, SIGTERM and SIGHUP become an entry in a list; nothing happens inside the handler."""
    received: list[int] = []
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with contextlib.suppress(ValueError):  # not the main thread: the caller's handlers stay
            before[number] = signal.signal(number, lambda n, _: received.append(n))
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _output(run: RunDir, settings: Settings) -> Iterator[Callable[[], None]]:
    """A function that copies the program's new output to stderr, if that was asked for."""
    if not settings.pass_output:
        yield lambda: None
        return
    streams: list[Any] = []

    def copy() -> None:
        if not streams and run.stdout.exists() and run.stderr.exists():
            streams.extend((run.stdout.open("rb"), run.stderr.open("rb")))
        for stream in streams:
            sys.stderr.buffer.write(stream.read())
        sys.stderr.flush()

    try:
        yield copy
        copy()
    finally:
        for stream in streams:
            stream.close()


def _text(path: Any) -> str:
    return path.read_text(errors="replace") if path.exists() else ""
