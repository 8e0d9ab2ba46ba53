"""Every trap about sameness: the right verdict, the right cause, and nothing cried about where nothing is wrong."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from traps import PROGRAMS, TRAPS, Trap
from upshift_cli import Run, upshift

_EXIT = {"different": 5, "unknown": 3}


def verify(trap: Trap, cwd: Path) -> Run:
    command = trap.command(sys.executable)
    options = [*trap.sets]
    if trap.against is not None:
        options += ["--against", shlex.join([*command, *trap.against])]
    return upshift("verify", "--json", "-", "--steps", str(trap.steps), *options, "--", *command, cwd=cwd)


@pytest.mark.parametrize("trap", TRAPS, ids=lambda t: t.name)
def test_trap(trap: Trap, tmp_path: Path) -> None:
    # batchwise.py's config is bound by its name in the folder the command runs in
    run = verify(trap, PROGRAMS if trap.program == "batchwise.py" else tmp_path)
    assert run.code == _EXIT.get(trap.kind, 0), run.stderr + run.stdout
    found = run.document
    assert found["schema"] == "upshift.verify/1"
    verdict = found["verdict"]
    assert verdict["kind"] == trap.kind, json.dumps(verdict, indent=1)
    assert verdict["cause"] == trap.cause or trap.cause is None, verdict
    said = " ".join([verdict["because"], *verdict["evidence"]])
    assert trap.says in said, said
    if trap.today == "":
        assert found["today"] == []
    elif trap.today is not None:
        assert any(trap.today in sentence for sentence in found["today"]), found["today"]


def by_name(name: str) -> Trap:
    return next(t for t in TRAPS if t.name == name)


def asked(trap: Trap, cwd: Path, *options: str) -> Run:
    command = trap.command(sys.executable)
    return upshift("verify", "--json", "-", "--steps", "4", *options, *trap.sets, "--", *command, cwd=cwd)


def test_a_tolerance_is_the_users_to_give(tmp_path: Path) -> None:
    """A wide one calls the same what is averaged differently (and different without it: the trap itself)."""
    wide = asked(by_name("tokens-mean"), tmp_path, "--tolerance", "10").document["verdict"]
    assert wide["kind"] == "same", wide
    assert wide["epsilon"] > 0.1


def test_in_float64_rounding_is_small(tmp_path: Path) -> None:
    run = asked(by_name("tokens-normalised"), tmp_path, "--float64")
    assert run.code == 0, run.stderr
    assert run.document["verdict"]["kind"] == "same"
    assert run.document["verdict"]["epsilon"] < 1e-12


def test_an_accumulation_that_follows_needs_no_place_of_its_own() -> None:
    command = [sys.executable, "derived.py"]
    options = ("--set", "micro_batch=4", "--set", "grad_accum=4", "--steps", "4")
    run = upshift("verify", "--json", "-", *options, "--", *command, cwd=PROGRAMS.parent / "bindings")
    assert run.code == 0, run.stderr
    assert run.document["verdict"]["kind"] == "same"


def test_a_setting_in_a_module_of_the_users_is_found() -> None:
    """by_module.py imports chosen.py, where the numbers are: only a run shows that."""
    options = ("--set", "micro_batch=4", "--set", "grad_accum=4", "--steps", "4")
    command = [sys.executable, "by_module.py"]
    run = upshift("verify", "--json", "-", *options, "--", *command, cwd=PROGRAMS.parent / "bindings")
    assert run.code == 0, run.stderr
    assert run.document["verdict"]["kind"] == "same"
