"""A planted cause is found, with its line or setting; the same shape without the cause raises no alarm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from findings import CASES, PROGRAMS, Case, command
from upshift_cli import profile

# A noisy neighbour on the machine is a true finding and no concern of these tests.
_SECONDS = "4"


# What needs an experiment takes its time: `make test-slow` runs these.
_PARAMETERS = [
    pytest.param(
        case,
        id=case.name,
        marks=[pytest.mark.slow] * bool(case.experiments) + [pytest.mark.timed] * (not case.counted),
    )
    for case in CASES
]


@pytest.mark.parametrize("case", _PARAMETERS)
def test_finding(case: Case, tmp_path: Path) -> None:
    extra = {"OMP_NUM_THREADS": str(os.cpu_count())} if case.threads else {}
    run = profile(
        command(case, sys.executable),
        "--seconds",
        _SECONDS,
        cwd=tmp_path,
        experiments=case.experiments,
        **extra,
    )
    assert run.code == 0, run.stderr
    findings = {finding["kind"]: finding for finding in run.document["findings"]}
    if case.threads and "other_process" in findings:
        pytest.skip("another program holds the cores that these threads would use")
    shown = {kind: (f["saves_share"], f["title"], f["evidence"]) for kind, f in findings.items()}
    for kind in case.found:
        assert kind in findings, shown
    for kind in case.absent:
        assert kind not in findings, shown
    for kind in case.found:
        finding = findings[kind]
        assert finding["evidence"] and finding["fix"]
        if finding["saves_share"] is not None and finding["bound_share"] is not None:
            assert finding["saves_share"] <= finding["bound_share"] + 1e-9
    if case.says:
        assert case.says in str(findings[case.found[0]]), shown
    if case.at:
        where = findings[case.found[0]]["where"]
        path, _, line = where.partition(" ")[0].rpartition(":")
        lines = (PROGRAMS / f"{case.program}.py").read_text().splitlines()
        assert case.at in "".join(lines[int(line) - 2 : int(line) + 1]), where


@pytest.mark.timed
def test_another_program_on_the_machine(tmp_path: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        run = profile(
            [sys.executable, str(PROGRAMS / "frozen.py"), "fixed"],
            "--seconds",
            _SECONDS,
            cwd=tmp_path,
        )
    finally:
        for process in busy:
            process.kill()
            process.wait()
    found = [f for f in run.document["findings"] if f["kind"] == "other_process"]
    assert found, run.document["findings"]
    assert any(str(process.pid) in str(found[0]["evidence"]) for process in busy)


@pytest.mark.timed
def test_own_workers_are_no_other_program(tmp_path: Path) -> None:
    run = profile(
        [sys.executable, str(PROGRAMS / "data_wait.py"), "near"],
        "--seconds",
        _SECONDS,
        cwd=tmp_path,
    )
    assert "other_process" not in {f["kind"] for f in run.document["findings"]}


@pytest.mark.timed
@pytest.mark.slow
def test_a_well_tuned_run_is_left_alone(tmp_path: Path) -> None:
    run = profile(
        [sys.executable, str(PROGRAMS / "well_tuned.py"), "planted"],
        cwd=tmp_path,
        experiments=True,
        OMP_NUM_THREADS=str(len(os.sched_getaffinity(0))),
    )
    document = run.document
    assert document["leave_it"], document["findings"]
    assert 0.2 < document["limit"]["compute_share"] < 1.2


@pytest.mark.timed
@pytest.mark.slow
def test_a_loop_of_matrix_products_is_near_the_limit(tmp_path: Path) -> None:
    run = profile(
        [sys.executable, str(PROGRAMS / "matmul_loop.py"), "planted"], cwd=tmp_path, experiments=True
    )
    assert 0.85 < run.document["limit"]["compute_share"] < 1.1
