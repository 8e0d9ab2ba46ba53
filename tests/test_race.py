"""Two runs side by side, one asleep while the other works."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import islice
from pathlib import Path

import psutil
import pytest

from upshift.command import Command, understand
from upshift.race import Racer, _begun, _open, race
from upshift.search.confirm import total
from upshift.session import Settings, stop_signals

PACED = Path(__file__).parent / "programs" / "tune" / "paced.py"


def side(folder: Path, *argv: str) -> tuple[Command, Settings]:
    settings = Settings(environment={"OMP_NUM_THREADS": "1"})
    return understand([sys.executable, str(PACED), *argv], folder), settings


def below() -> list[psutil.Process]:
    return [p for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.timed
def test_evaluations_and_saves_do_not_count(tmp_path: Path) -> None:
    sides = [side(tmp_path, "--milliseconds", str(ms), "--evaluate", "20") for ms in (30, 15)]
    with closing(race(sides, (0.03, 0.015), 60.0)) as slices:
        before, after = total(list(islice(slices, 3)))
    assert before / after == pytest.approx(2.0, rel=0.1)


@pytest.mark.timed
def test_the_ratio_is_that_of_the_work(tmp_path: Path) -> None:
    sides = [side(tmp_path, "--milliseconds", str(ms)) for ms in (30, 20)]
    with closing(race(sides, (0.03, 0.02), 60.0)) as slices:
        before, after = total(list(islice(slices, 4)))
        awake = [p for p in below() if str(PACED) in p.cmdline() and p.status() != psutil.STATUS_STOPPED]
        assert awake == [], "both sleep while nobody asks"
    assert before / after == pytest.approx(1.5, rel=0.1)
    assert not [p for p in below() if str(PACED) in p.cmdline()]


def test_a_run_that_ends_ends_the_race(tmp_path: Path) -> None:
    endless, short = side(tmp_path), side(tmp_path, "--steps", "30")
    assert list(race([endless, short], (0.02, 0.02), 60.0)) == []
    assert not [p for p in below() if str(PACED) in p.cmdline()]


def test_nobody_computes_a_step_before_its_turn(tmp_path: Path) -> None:
    command, settings = side(tmp_path, "--milliseconds", "1", "--tell")
    with ExitStack() as stack, stop_signals() as stopped:
        keeper, run = _open(stack, command, replace(settings, turns=3))
        racer = Racer(keeper, run, stopped, 0.003)
        assert _begun([racer], 60.0)
        assert run.stdout.read_text() == "", (
            "it sleeps at its first backward: others may be starting beside it"
        )
        for turns in (1, 2):
            assert racer.turn() is not None
            assert run.stdout.read_text().split() == [str(step) for step in range(3 * turns)]
