"""`upshift profile`: launch, measure, show."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bar

from upshift import session
from upshift.command import Command
from upshift.diagnose.diagnosis import Diagnosis, diagnose
from upshift.diagnose.second_act import SecondAct
from upshift.errors import NoStep, NothingMeasured, UpshiftError
from upshift.measure.enough import Enough, Progress
from upshift.measure.profile import Profile, measure, training
from upshift.outcomes import failed, why_nothing
from upshift.report import units
from upshift.session import Outcome, Settings, Snapshot


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for."""

    command: Command
    steps: int | None = None
    seconds: float | None = None
    first_step_seconds: float = 300.0
    timeout_seconds: float = 1800.0
    experiments: tuple[str, ...] | None = None
    """What to try in the run itself, after the measurement; None: all that can pay, empty: nothing."""
    settings: Settings = Settings()


def profile(request: Request, talk: Console) -> tuple[Profile, Diagnosis, Outcome]:
    """Run the command, long enough to know. Raises the error that says why there is no profile."""
    enough = Enough(
        steps=request.steps,
        seconds=request.seconds,
        first_step_seconds=request.first_step_seconds,
        patience=request.timeout_seconds,
    )
    second = SecondAct(wanted=request.experiments)
    with _live(talk, enough, second) as tell:

        def watch(snapshot: Snapshot) -> str | None:
            reason = second(snapshot) if second.begun else second.after(enough(snapshot), snapshot)
            tell(snapshot)
            return reason

        outcome = session.launch(request.command, request.settings, watch)
    measured = measure(outcome)
    if measured is None or (failed(outcome) and not second.begun):
        raise _why_not(outcome, request, measured)
    return measured, diagnose(outcome, measured), outcome


def _why_not(outcome: Outcome, request: Request, measured: Profile | None) -> UpshiftError:
    """The error that names what was seen and what to do."""
    log = training(outcome.processes)
    steps = len(log.steps) if log else 0
    why = why_nothing(outcome, first_step_seconds=request.first_step_seconds, steps=steps)
    if why is not None:
        return why
    if outcome.ended_by == "program":
        return NothingMeasured(
            f"the program ended by itself after {steps} step(s), too few to measure",
            hint="let it run longer (more steps or epochs); upshift ends it by itself",
        )
    return NoStep(
        f"{steps} whole step(s) in {units.seconds(outcome.seconds)}: too few to measure",
        hint=f"give it longer with --timeout (now {request.timeout_seconds:g} s)",
    )


@contextlib.contextmanager
def _live(talk: Console, enough: Enough, second: SecondAct) -> Iterator[Callable[[Snapshot], None]]:
    """Progress on stderr: a bar on a terminal, a line at each stage elsewhere."""
    if not talk.is_terminal:
        yield _Lines(talk, enough, second)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[note]}"),
    )
    with Bar(*columns, console=talk, transient=True, refresh_per_second=4) as bar:
        task = bar.add_task("starting", total=1.0, note="")

        def tell(snapshot: Snapshot) -> None:
            progress = second.progress(enough.progress)
            bar.update(
                task, description=progress.stage, completed=progress.fraction, note=_note(progress, snapshot)
            )

        yield tell


def _note(progress: Progress, snapshot: Snapshot) -> str:
    """What stands beside the bar."""
    if progress.stage == SecondAct.stage:
        log = training(snapshot.processes)
        return f"{len(log.experiments) if log else 0} experiments done"
    if progress.step is None:
        torch = next((p.torch for p in snapshot.processes if p.torch), None)
        what = f"torch {torch} imported, waiting for the first steps" if torch else "waiting for torch"
        return f"{snapshot.elapsed:.0f} s, {what}"
    left = f", about {units.seconds(progress.left_seconds)} left" if progress.left_seconds else ""
    return f"step {progress.steps}, {units.seconds(progress.step.median)} each{left}"


class _Lines:
    """Plain progress for logs and pipes: one line when the stage changes, then one every ten seconds."""

    def __init__(self, talk: Console, enough: Enough, second: SecondAct) -> None:
        self.talk, self.enough, self.second = talk, enough, second
        self._stage = ""
        self._next = 0.0

    def __call__(self, snapshot: Snapshot) -> None:
        progress = self.second.progress(self.enough.progress)
        if progress.stage != self._stage or snapshot.elapsed >= self._next:
            self._stage, self._next = progress.stage, snapshot.elapsed + 10.0
            self.talk.print(f"{progress.stage}: {_note(progress, snapshot)}", highlight=False)
