"""`upshift tune`: the search with real runs, a journal, and something to look at."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from upshift.errors import Interrupted
from upshift.knobs.change import Change
from upshift.knobs.discover import Seen
from upshift.plan import Plan
from upshift.real_runs import Launching, Runs
from upshift.search.bench import Bench, Request
from upshift.search.trial import Trial
from upshift.search.tune import tune as search


class View(Protocol):
    """Something to look at meanwhile."""

    def attach(self, bench: Bench) -> None:
        """Called once, with the book that fills."""

    def tell(self, text: str) -> None:
        """What is going on now."""


def tune(request: Request, launching: Launching, view: View) -> Plan:
    """Find the fastest way to run the same training."""
    runs = Runs(request.now, launching, view.tell)
    try:
        return search(request, replace(runs.ways(), attach=view.attach))
    except (KeyboardInterrupt, Interrupted):
        raise Interrupted(
            f"stopped; the trials so far are in {runs.journal.path}, and the same command goes on from there"
        ) from None


def look(now: Change, launching: Launching) -> tuple[Trial, Seen]:
    """The run as it is, and where its settings come from."""
    return Runs(now, launching, lambda _: None).look(now)
