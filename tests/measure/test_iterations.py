"""Groups of optimizer steps → iterations."""

from __future__ import annotations

from pathlib import Path

from upshift.eventlog import ProcessLog
from upshift.inject.upshift_agent.events import PHASES
from upshift.measure.iterations import iterations


def log(*groups: tuple[list[str], int]) -> ProcessLog:
    """A recorded run: (optimizers, batches fetched) for each group after the partial first one."""
    record = ProcessLog(Path("x"))
    for index, (optimizers, fetches) in enumerate([(["?"], 0), *groups]):
        record.steps.append(
            {
                "index": index,
                "end": float(index),
                "phases": [0.0, 1.0] + [0.0] * (len(PHASES) - 2),
                "nograd": None,
                "evaluates": False,
                "eval": 0.0,
                "optimizers": optimizers,
                "skipped": False,
                "device": "cpu",
                "micro": [[4, 4, 1, 4 * fetches or None, fetches, None, None, None, None, False]],
            }
        )
    return record


def test_one_optimizer() -> None:
    assert len(iterations(log(*[(["A"], 1)] * 5))) == 5


def test_optimizers_in_turn_are_one_iteration() -> None:
    found = iterations(log(*[(["D"], 1), (["G"], 0)] * 4))
    assert len(found) == 4
    assert all(i.optimizers == ("D", "G") and len(i.groups) == 2 for i in found)
    assert found[0].seconds == 2.0


def test_a_run_cut_in_the_middle_of_a_turn() -> None:
    found = iterations(log(*[(["D"], 1), (["G"], 0)] * 4, (["D"], 1)))
    assert len(found) == 4


def test_the_second_optimizer_only_now_and_then() -> None:
    found = iterations(log(*([(["D"], 1)] * 4 + [(["G"], 0)]) * 3))
    assert len(found) == 12
    assert sum("G" in i.optimizers for i in found) == 3


def test_a_run_that_starts_in_the_middle_of_a_turn() -> None:
    found = iterations(log((["G"], 0), *[(["D"], 1), (["G"], 0)] * 4))
    assert all(i.optimizers[0] == "D" for i in found)


def test_nothing_yet() -> None:
    assert iterations(log()) == ()
