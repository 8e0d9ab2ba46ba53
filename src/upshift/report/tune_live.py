"""While tuning: what it does, the trials so far, the best of them, the time left. Plain lines without a terminal."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from upshift.report import units
from upshift.search.bench import Bench
from upshift.search.trial import Trial

_MOST_ROWS = 10


class TuneView:
    """Given to the tuning; a context, so that the terminal is put in order whatever happens."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bench: Bench | None = None
        self._phase = ""
        self._live = Live(self, console=console, refresh_per_second=2, transient=True)

    def __enter__(self) -> TuneView:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live.is_started:
            self._live.stop()

    def attach(self, bench: Bench) -> None:
        """The book to show."""
        self._bench = bench

    def tell(self, text: str) -> None:
        """What is going on now."""
        self._phase = text
        if not self._live.is_started:
            self._console.print(Text(text), highlight=False)

    def __rich__(self) -> Group:
        if self._bench is None:
            return Group(Text(self._phase))
        return Group(_table(self._bench.trials), Text(self._phase), _standing(self._bench))


def _table(trials: list[Trial]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("trial")
    table.add_column("samples/s", justify="right")
    table.add_column("against now", justify="right")
    table.add_column("took", justify="right")
    for trial in trials[-_MOST_ROWS:]:
        told = ", ".join(f"{knob} {value}" for knob, value in trial.settings.items()) or "as it is"
        speed = f"{trial.samples_per_second:.4g}" if trial.ok else trial.outcome
        table.add_row(told, speed, _ratio(trial, trials[0]), units.seconds(trial.seconds))
    return table


def _standing(bench: Bench) -> Text:
    fast = max((t for t in bench.trials if t.ok), key=lambda t: t.samples_per_second or 0.0, default=None)
    best = f"best so far {_ratio(fast, bench.trials[0])} · " if fast is not None else ""
    left = max(0.0, bench.request.budget_seconds - bench.seconds)
    return Text(f"{best}{units.seconds(bench.seconds)} gone, at most {units.seconds(left)} left", style="dim")


def _ratio(trial: Trial, baseline: Trial) -> str:
    if not trial.ok or not baseline.ok:
        return ""
    return f"{(trial.samples_per_second or 0.0) / (baseline.samples_per_second or 1.0):.2f}×"
