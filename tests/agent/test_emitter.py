"""One file a process, whole lines, losses counted."""

from __future__ import annotations

import json
import os
import resource
import signal
from pathlib import Path

import pytest

from upshift.errors import MachineProblem
from upshift.eventlog import EventLog
from upshift.inject.upshift_agent.emitter import Emitter
from upshift.inject.upshift_agent.events import SCHEMA


def test_header_first_then_numbered_events(tmp_path: Path) -> None:
    emitter = Emitter(str(tmp_path))
    emitter.hello()
    emitter.emit("torch", version="2.13.0")
    emitter.emit("end", why="exit")
    emitter.flush()
    header, *events = map(json.loads, Path(emitter.path).read_text().splitlines())
    assert header["schema"] == SCHEMA
    assert [e["seq"] for e in events] == [0, 1]
    assert all({"wall", "mono", "dropped"} <= e.keys() for e in events)


def test_nothing_is_written_by_a_fork_that_says_nothing(tmp_path: Path) -> None:
    emitter = Emitter(str(tmp_path))
    emitter.after_fork()
    emitter.flush()
    assert not list(tmp_path.iterdir())


def test_a_full_disk_costs_events_and_says_how_many(tmp_path: Path) -> None:
    """A real limit: the kernel refuses to let the file grow."""
    emitter = Emitter(str(tmp_path))
    emitter.hello()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(emitter.path) + 50, before[1]))
    try:
        for _ in range(3):
            emitter.emit("armed", seconds=0.0)
            emitter.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert emitter.dropped == 3
    emitter.emit("end", why="exit")
    emitter.flush()
    (log,) = EventLog(tmp_path).poll()
    assert log.ended == "exit"  # the torn line did not spoil the next
    assert log.torn == 1
    assert log.dropped == 3


def test_descriptors_closed_by_the_program_do_not_matter(tmp_path: Path) -> None:
    emitter = Emitter(str(tmp_path))
    emitter.hello()
    pid = os.fork()
    if pid == 0:
        os.closerange(3, 256)
        emitter.emit("end", why="exit")
        emitter.flush()
        os._exit(0)
    os.waitpid(pid, 0)
    assert EventLog(tmp_path).poll()[0].ended == "exit"


def test_a_line_still_being_written_waits(tmp_path: Path) -> None:
    file = tmp_path / "1.jsonl"
    whole = json.dumps({"schema": SCHEMA, "pid": 1, "mono": 0.0}) + "\n"
    half = '{"kind":"torch","version":"2.13.0","dropped":0}\n'
    file.write_text(whole + half[:20])
    log = EventLog(tmp_path)
    assert log.poll()[0].torch is None
    file.write_text(whole + half)
    assert log.poll()[0].torch == "2.13.0"


def test_an_unknown_version_is_a_loud_error(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text('{"schema": "upshift.events/99"}\n')
    with pytest.raises(MachineProblem, match="upshift.events/99"):
        EventLog(tmp_path).poll()
