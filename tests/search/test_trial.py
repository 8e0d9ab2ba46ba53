"""What a launch is read as."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

from upshift.command import understand
from upshift.eventlog import ProcessLog
from upshift.search.trial import CRASH, read
from upshift.session import Outcome


def test_a_lever_that_failed_voids_the_trial(tmp_path: Path) -> None:
    """However well the run went: it was not what was to be tried."""
    log = ProcessLog(tmp_path / "1.jsonl")
    log.take('{"kind": "lever_failed", "seq": 1, "dropped": 0, "lever": "no_sync", "error": "ValueError()"}')
    outcome = Outcome(
        command=understand([sys.executable, "-c", "pass"], tmp_path),
        processes=(log,),
        started=0.0,
        seconds=5.0,
        ended_by="seconds",
        exit_code=None,
        isolation="none",
        isolation_note=None,
        stdout="",
        stderr="",
        resources=cast(Any, None),
        disk_full=False,
    )
    trial = read(outcome, {"no_sync": True}, 5.0)
    assert (trial.outcome, trial.why) == (CRASH, "no_sync: ValueError()")
