"""The command line's question, put into the terms of `verify`; progress while it is answered."""

from __future__ import annotations

import argparse
import contextlib
import shlex
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from upshift.command import Command, understand
from upshift.errors import UsageError
from upshift.knobs.change import Change
from upshift.knobs.spoken import parse
from upshift.session import Snapshot
from upshift.verify.runs import Launcher, Side
from upshift.verify.verify import GRAD_ACCUM, MICRO_BATCH, Answer, Question, verify


def ask(options: argparse.Namespace, command: Command, talk: Console) -> Answer:
    """Run what is needed and judge."""
    bindings = {knob: parse(text, command) for knob, text in options.bindings}
    settings = {knob: _value(knob, text) for knob, text in options.settings}
    unknown = [knob for knob in settings if knob not in bindings and knob not in (MICRO_BATCH, GRAD_ACCUM)]
    if unknown:
        raise UsageError(
            f"--set {unknown[0]}: upshift does not know where that is set",
            hint=f"--bind {unknown[0]}=--flag, or file.yaml:key, or file.py:NAME",
        )
    other = understand(shlex.split(options.against), command.cwd) if options.against else None
    question = Question(
        now=Change(command=command),
        other=Change(command=other) if other else None,
        settings=settings,
        bindings=bindings,
        steps=options.steps,
        tolerance=options.tolerance,
        float64=options.float64,
    )
    with _live(talk) as tell:
        return verify(
            question,
            Launcher(
                isolate=options.isolation,
                pass_output=options.show_output,
                first_step_seconds=options.first_step_timeout,
                timeout_seconds=options.timeout,
                tell=tell,
            ),
        )


def _value(knob: str, text: str) -> object:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            value = kind(text)
            if knob in (MICRO_BATCH, GRAD_ACCUM) and (value < 1 or kind is float):
                break
            return value
    if knob in (MICRO_BATCH, GRAD_ACCUM):
        raise UsageError(f"--set {knob} must be a whole number above 0, got {text!r}")
    return {"true": True, "false": False}.get(text.lower(), text)


@contextlib.contextmanager
def _live(talk: Console) -> Iterator[Callable[[Side, int, int, Snapshot], None]]:
    """Progress on stderr: a bar on a terminal, a line for each run elsewhere."""
    if not talk.is_terminal:
        said: set[str] = set()

        def line(side: Side, seen: int, wanted: int, snapshot: Snapshot) -> None:
            if side.label not in said:
                said.add(side.label)
                talk.print(f"run {len(said)}, {side.label}: {wanted} steps", highlight=False)

        yield line
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=talk, transient=True, refresh_per_second=4) as bar:
        tasks: dict[str, object] = {}

        def update(side: Side, seen: int, wanted: int, snapshot: Snapshot) -> None:
            task = tasks.get(side.label)
            if task is None:
                task = tasks[side.label] = bar.add_task(side.label, total=1.0, note="")
            left = snapshot.elapsed / seen * (wanted - seen) if seen else None
            note = f"step {seen} of {wanted}" + (f", about {left:.0f} s left" if left else "")
            bar.update(task, completed=seen / max(1, wanted), note=note)  # type: ignore[arg-type]

        yield update
