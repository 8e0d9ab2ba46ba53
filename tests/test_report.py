"""What is printed, on a fixed profile: golden, 80 columns, readable without colour."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

from rich.console import Console

from upshift.diagnose.diagnosis import Diagnosis
from upshift.diagnose.finding import Finding
from upshift.diagnose.limit import Limit
from upshift.measure.batch import Batch
from upshift.measure.modules import Module, Modules
from upshift.measure.places import Place
from upshift.measure.profile import AgentCost, Phase, Profile, RunPhases
from upshift.measure.steady import Interval
from upshift.report import units
from upshift.report.profile_json import document
from upshift.report.profile_text import show
from upshift.resources import Resources

GOLDEN = Path(__file__).parent / "golden"


def _module(name: str, *, kind: str = "", inside: tuple[Module, ...] = (), **times: float) -> Module:
    kind = kind or name.rpartition(".")[2].title()
    return Module(name=name, kind=kind, where=None, parameters=1000, frozen=None, inside=inside, **times)


DIAGNOSIS = Diagnosis(
    findings=(
        Finding(
            kind="micro_batch",
            title="micro-batch of 1 is too small",
            evidence=(
                "16 micro-batches one by one 1.1 s, in one call 210 ms",
                "60 ms of every call is there whatever its size",
            ),
            saves=0.71,
            bound=0.78,
            measured=True,
            fix="training.batch_size in c.yaml 1 → 16, training.grad_accum in c.yaml 16 → 1: "
            "the same 16 samples a step",
            where="training.batch_size in c.yaml",
        ),
        Finding(
            kind="many_calls",
            title="Summariser.decoder runs step by step: 100 calls a micro-step",
            evidence=("52 % of a step, 0.19 ms a call in the forward",),
            saves=0.51,
            bound=0.52,
            measured=False,
            fix="do in one call what needs no result of the step before",
            where="model.py:91",
            overlaps=("micro_batch",),
        ),
        Finding(
            kind="page_faults",
            title="memory is read back from disk while training",
            evidence=("120 major page faults a step: each waits for the disk",),
            saves=None,
            bound=None,
            measured=False,
            fix="read the data into memory once",
        ),
    ),
    limit=Limit(
        flops=3e9,
        share=0.11,
        peak={"float32": 60e9},
        stated=None,
        bandwidth=12e9,
        threads=2,
        input_factor=40.0,
    ),
    failed=(),
)

PROFILE = Profile(
    command="python train.py --config c.yaml",
    cwd=Path("/home/ada/project"),
    device="cpu",
    torch="2.13.0",
    world_size=1,
    observed=42,
    used=40,
    warmup=2,
    skipped=0,
    step=Interval(median=1.25, low=1.22, high=1.29),
    step_mean=1.26,
    batch=Batch(
        micro_batch=1,
        grad_accum=16,
        samples=16.0,
        tokens=9600.0,
        padding_share=0.031,
        length_median=600,
        length_max=768,
        calls=1,
        varies=False,
    ),
    samples_per_second=12.7,
    tokens_per_second=7619.0,
    phases=(
        Phase(
            name="backward",
            seconds=0.66,
            share=0.52,
            places=(Place(file="train.py", line=88, function="main", share=1.0),),
        ),
        Phase(
            name="forward",
            seconds=0.5,
            share=0.4,
            places=(
                Place(file="src/models/deeply/nested/attention.py", line=41, function="forward", share=0.6),
            ),
        ),
        Phase(name="optimizer", seconds=0.06, share=0.05, places=()),
        Phase(name="data_wait", seconds=0.04, share=0.03, places=()),
        Phase(name="logging", seconds=0.0, share=0.0, places=()),
        Phase(name="host_to_device", seconds=None, share=None, places=(), note="no device to copy to"),
    ),
    modules=Modules(
        roots=(
            _module(
                "Summariser",
                calls=16,
                forward=0.5,
                own=0.05,
                backward=0.6,
                inside=(
                    _module(
                        "Summariser.encoder", kind="LSTM", calls=16, forward=0.15, own=0.15, backward=0.2
                    ),
                    _module("Summariser.decoder", calls=1600, forward=0.3, own=0.3, backward=0.35),
                ),
            ),
        ),
        criteria=(),
        micro_steps=20,
        recomputed=0.0,
    ),
    run=RunPhases(
        startup_seconds=4.2,
        evaluation_seconds=0.0,
        evaluations=0,
        checkpoint_seconds=1.5,
        checkpoints=3,
        watched_seconds=52.0,
    ),
    optimizers=("Adam#0",),
    resources=Resources(
        peak_bytes=640 << 20,
        tree_peak_bytes=700 << 20,
        cpu_cores=1.9,
        cores=2,
        swap_bytes=0,
        major_faults=0,
        other_cores=0.0,
        other_processes=(),
        memory_bytes=16 << 30,
        stalled_share=0.0,
        gpu=(),
    ),
    agent=AgentCost(overhead_share=0.004, dropped=0, probe_failures=()),
    isolation="overlay",
    isolation_note=None,
    ended_by="steady",
)


def page(profile: Profile, diagnosis: Diagnosis = DIAGNOSIS) -> str:
    stream = io.StringIO()
    show(profile, diagnosis, Console(file=stream, width=80))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def test_page_is_golden() -> None:
    assert page(PROFILE) == (GOLDEN / "profile.txt").read_text()


def test_page_fits_80_columns() -> None:
    lines = page(PROFILE).splitlines()
    assert all(len(line) <= 80 for line in lines if not line.startswith(("A step", "next:", "!")))


def test_document_is_golden() -> None:
    assert document(PROFILE, DIAGNOSIS) == json.loads((GOLDEN / "profile.json").read_text())


def test_a_run_without_a_cause_is_left_alone() -> None:
    text = page(PROFILE, dataclasses.replace(DIAGNOSIS, findings=()))
    assert "leave it" in text.splitlines()[0]
    assert "at 11 % of this machine's measured limit" in text.splitlines()[0]
    assert "why it is slow" not in text


def test_a_saving_that_is_not_worth_it_is_no_main_cause() -> None:
    small = dataclasses.replace(DIAGNOSIS.findings[0], saves=0.045)
    text = page(PROFILE, dataclasses.replace(DIAGNOSIS, findings=(small,)))
    assert "leave it" in text.splitlines()[0]


def test_doubts_are_told() -> None:
    doubtful = dataclasses.replace(
        PROFILE,
        step=Interval(median=1.0, low=0.7, high=1.4),
        isolation="redirect",
        isolation_note="unshare: Operation not permitted",
        agent=AgentCost(overhead_share=None, dropped=7, probe_failures=("loader: TypeError()",)),
    )
    text = page(doubtful)
    assert "noisy: the median step is known to ±35 % only" in text
    assert "unshare: Operation not permitted" in text
    assert "7 events were lost" in text
    assert "loader: TypeError()" in text


def test_units() -> None:
    assert [units.seconds(s) for s in (0.0000042, 0.0123, 1.254, 75.0, 600.0)] == [
        "4.2 µs",
        "12.3 ms",
        "1.25 s",
        "75 s",
        "10.0 min",
    ]
    assert [units.share(s) for s in (0.004, 0.0994, 0.5)] == ["0.4 %", "9.9 %", "50 %"]
    assert units.rate(12345.6) == "12 346"
    assert units.size(640 << 20) == "640 MiB"
