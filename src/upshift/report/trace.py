"""Marks of a few steps → a Chrome trace: phases on one track, calls of modules on another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from upshift.inject.upshift_agent import books, module_times
from upshift.inject.upshift_agent.events import PHASES
from upshift.measure.profile import training
from upshift.session import Outcome

_ENDS = (books.LEAVE, books.LEAVE_AS, books.BACKWARD_ENDS)


def chrome_trace(outcome: Outcome) -> dict[str, Any] | None:
    """The document, or None where no step was kept."""
    log = training(outcome.processes)
    event = log.trace if log else None
    if log is None or event is None or not event["marks"]:
        return None
    pid = log.pid
    spans = [*_phases(event["marks"]), *_modules(event["modules"], event["names"])]
    steps = sum(1 for kind, _ in event["marks"] if kind == books.STEP)
    names = [
        {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": str(outcome.command)}},
        {"ph": "M", "pid": pid, "tid": 0, "name": "thread_name", "args": {"name": "phases"}},
        {"ph": "M", "pid": pid, "tid": 1, "name": "thread_name", "args": {"name": "modules"}},
    ]
    origin = min(begun for _, begun, _, _ in spans)
    return {
        "displayTimeUnit": "ms",
        "otherData": {"tool": "upshift", "steps": steps},
        "traceEvents": names
        + [
            {
                "ph": "X",
                "pid": pid,
                "tid": track,
                "name": name,
                "ts": (begun - origin) * 1e6,
                "dur": (ended - begun) * 1e6,
            }
            for name, begun, ended, track in sorted(spans, key=lambda s: (s[3], s[1], -s[2]))
        ],
    }


def _phases(marks: list[tuple[int, float]]) -> Iterator[tuple[str, float, float, int]]:
    stack: list[tuple[int, float]] = []
    for kind, now in marks:
        phase = books.PHASE_OF.get(kind, kind)
        if phase < len(PHASES):
            stack.append((phase, now))
        elif (kind in _ENDS or kind == books.STEP) and stack:
            begun = stack.pop()
            yield PHASES[begun[0]], begun[1], now, 0


def _modules(
    tapes: list[list[tuple[int, float, int]]], names: list[str]
) -> Iterator[tuple[str, float, float, int]]:
    for tape in tapes:
        stack: list[tuple[int, float]] = []
        for kind, now, index in tape:
            if kind == module_times.ENTER:
                stack.append((index, now))
            elif kind == module_times.LEAVE and stack:
                entered, begun = stack.pop()
                yield names[entered], begun, now, 1
