"""Two profiles side by side, and a trace that opens."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from truth import PROGRAMS
from upshift_cli import upshift

pytestmark = pytest.mark.timed


def document(step: float, **changes: object) -> dict:
    golden = json.loads((Path(__file__).parent / "golden" / "profile.json").read_text())
    golden["step_seconds"] = {"median": step, "low": step * 0.98, "high": step * 1.02, "mean": step}
    return {**golden, **changes}


def compared(tmp_path: Path, before: dict, after: dict) -> str:
    for name, content in (("a.json", before), ("b.json", after)):
        (tmp_path / name).write_text(json.dumps(content))
    run = upshift("profile", "--compare", "a.json", "b.json", cwd=tmp_path)
    assert run.code == 0, run.stderr
    return run.stdout


def test_faster(tmp_path: Path) -> None:
    shown = compared(tmp_path, document(1.0), document(0.5))
    assert shown.startswith("2.00× faster, by a step (1.92 to 2.08)")
    assert "0.50×" in shown


def test_another_batch_is_compared_by_sample(tmp_path: Path) -> None:
    assert compared(tmp_path, document(1.0), document(1.0, effective_batch=32)).startswith(
        "2.00× faster, by a sample"
    )


def test_within_the_intervals_nothing_is_claimed(tmp_path: Path) -> None:
    assert compared(tmp_path, document(1.0), document(0.99)).startswith("No difference to be seen")


def test_a_file_that_is_no_profile(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"schema": "other/1"}')
    run = upshift("profile", "--compare", "a.json", "a.json", cwd=tmp_path)
    assert run.code == 2
    assert "holds 'other/1'" in run.stderr
    run = upshift("profile", "--compare", "missing.json", "--", "python", "-c", "pass", cwd=tmp_path)
    assert run.code == 2
    assert "cannot read" in run.stderr


def test_beside_a_run_and_with_a_trace(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAMS / "accumulation.py")]
    options = ["--seconds", "4", "--no-experiments"]
    run = upshift("profile", *options, "--json", "before.json", "--", *command, cwd=tmp_path)
    assert run.code == 0, run.stderr
    run = upshift(
        "profile", *options, "--compare", "before.json", "--trace", "t.json", "--", *command, cwd=tmp_path
    )
    assert run.code == 0, run.stderr
    assert "before" in run.stdout
    trace = json.loads((tmp_path / "t.json").read_text())
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert {"forward", "backward", "optimizer"} <= {e["name"] for e in spans if e["tid"] == 0}
    assert any("encoder" in e["name"] for e in spans if e["tid"] == 1)
    for track in (0, 1):  # spans nest: what begins inside another ends inside it
        open_until: list[float] = []
        for span in sorted((e for e in spans if e["tid"] == track), key=lambda e: (e["ts"], -e["dur"])):
            while open_until and open_until[-1] <= span["ts"]:
                open_until.pop()
            assert not open_until or span["ts"] + span["dur"] <= open_until[-1] + 1e-3
            open_until.append(span["ts"] + span["dur"])
