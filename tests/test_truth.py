"""Every tiny trainer has its truth planted, and the profile finds it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from truth import PROGRAMS, TRUTHS, Truth, marked_line
from upshift_cli import profile

STEPS = "25"


@pytest.mark.parametrize("truth", TRUTHS, ids=lambda t: t.program.removesuffix(".py"))
def test_profile_finds_the_planted_truth(truth: Truth, tmp_path: Path) -> None:
    for module in truth.needs:
        assert importlib.util.find_spec(module), f"{module} is part of the test requirements"
    run = profile(
        truth.argv(sys.executable),
        "--steps",
        STEPS,
        cwd=PROGRAMS if truth.in_programs else tmp_path,
    )
    assert run.code == 0, run.stderr
    found = run.document
    assert found["micro_batch"] == truth.micro_batch
    assert found["grad_accum"] == truth.grad_accum
    assert found["world_size"] == truth.world_size
    assert len(found["optimizers"]) == truth.optimizers or "manual" in found["optimizers"]
    assert found["agent"]["probe_failures"] == []
    assert found["agent"]["dropped"] == 0
    phases = {p["name"]: p for p in found["phases"]}
    assert sum(p["share"] or 0.0 for p in found["phases"]) == pytest.approx(1.0, abs=0.02)
    if truth.tokens_per_step is not None:
        per_step = found["tokens_per_second"] * found["step_seconds"]["mean"] / truth.world_size
        assert per_step == pytest.approx(truth.tokens_per_step, rel=0.01)
    if truth.padding_share is not None:
        assert found["padding_share"] == pytest.approx(truth.padding_share, abs=truth.padding_tolerance)
    if truth.phase is not None:
        assert phases[truth.phase]["share"] >= truth.phase_share
    if truth.where is not None and truth.phase is not None:
        file, line = Path(truth.program).name, marked_line(truth.program)
        assert any(
            p["file"].endswith(file) and p["function"] == truth.where and abs(p["line"] - line) <= 1
            for p in phases[truth.phase]["places"][:2]
        ), phases[truth.phase]
    if truth.run_phase is not None:
        part = found["run"][truth.run_phase]
        assert part["count"] >= 1
        assert part["share"] >= truth.run_phase_share
    else:
        assert found["run"]["evaluation"]["count"] == 0
