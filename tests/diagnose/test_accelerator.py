"""Findings that only an accelerator can show: from recorded evidence, for no GPU is here."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from test_report import PROFILE

from upshift.diagnose import data, machine, waste
from upshift.diagnose.finding import Evidence
from upshift.diagnose.names import Names
from upshift.eventlog import ProcessLog
from upshift.inject.upshift_agent.probes.sync import SyncCounts
from upshift.measure.iterations import Iteration, Micro
from upshift.measure.modules import Modules
from upshift.measure.profile import Phase

LOADER = {
    "evaluation": False,
    "workers": 2,
    "pinned": False,
    "persistent": True,
    "where": "/home/ada/project/train.py:12",
    "dataset_where": None,
    "collate_where": None,
    "steps": 0,
}


def evidence(log: ProcessLog, copying: float = 0.3, **changes: object) -> Evidence:
    phases = (
        Phase(name="forward", seconds=0.4, share=0.7 - copying, places=()),
        Phase(name="backward", seconds=0.3, share=0.3, places=()),
        Phase(name="host_to_device", seconds=copying, share=copying, places=()),
    )
    micro = Micro(
        batch=4,
        total=4,
        calls=1,
        loaded=4,
        fetches=1,
        tokens=None,
        padded=None,
        length=None,
        longest=None,
        inside=False,
    )
    step = Iteration(
        end=1.0,
        phases=(0.0,) * 9,
        nograd=None,
        evaluates=False,
        evaluation=0.0,
        groups=((micro,),),
        optimizers=("A",),
        skipped=False,
        device="cuda",
    )
    return Evidence(
        profile=dataclasses.replace(PROFILE, device="cuda", phases=phases, **changes),
        log=log,
        ranks=(log,),
        used=(step,) * 5,
        fetched=(),
        names=Names(settings=()),
        output="",
        cwd=Path("/home/ada/project"),
    )


def test_copying_from_pageable_memory() -> None:
    log = ProcessLog(Path("x"), loaders=[LOADER])
    (finding,) = data.find(evidence(log))
    assert finding.kind == "memory_not_pinned"
    assert finding.where == "train.py:12"


def test_pinned_memory_raises_no_alarm() -> None:
    assert not list(data.find(evidence(ProcessLog(Path("x"), loaders=[{**LOADER, "pinned": True}]))))


def test_copying_that_takes_no_time_raises_no_alarm() -> None:
    assert not list(data.find(evidence(ProcessLog(Path("x"), loaders=[LOADER]), copying=0.001)))


def test_reads_that_make_the_host_wait() -> None:
    rows = [["item", "/home/ada/project/train.py:40", 100, 20.0], ["cpu", None, 1, 0.001]]
    log = ProcessLog(Path("x"), syncs={"rows": rows, "steps": 50})
    (finding,) = machine.find(evidence(log))
    assert finding.kind == "synchronisation"
    assert finding.where == "train.py:40"
    assert "2.0 a step" in finding.evidence[0]


def test_reads_that_cost_nothing_raise_no_alarm() -> None:
    log = ProcessLog(Path("x"), syncs={"rows": [["item", None, 50, 0.01]], "steps": 50})
    assert not list(machine.find(evidence(log)))


def test_reads_are_counted_by_line() -> None:
    class Recorder:
        thread = __import__("threading").get_ident()
        window = 0

    class Tensor:
        device = type("Device", (), {"type": "cuda"})

        def item(self) -> int:
            return 7

    counts = SyncCounts(Recorder())
    read = counts.timed(Tensor.item, "item")
    for _ in range(3):
        assert read(Tensor()) == 7
    ((name, where), (calls, seconds)) = next(iter(counts.by_line.items()))
    assert (name, calls) == ("item", 3)
    assert where.startswith(__file__)


def test_checkpointing_on_a_full_gpu_is_left_alone() -> None:
    modules = Modules(roots=(), criteria=(), micro_steps=5, recomputed=0.4)
    full = ({"name": "GPU", "peak_memory_bytes": 7.5e9, "total_bytes": 8e9},)
    empty = ({"name": "GPU", "peak_memory_bytes": 2e9, "total_bytes": 8e9},)
    log = ProcessLog(Path("x"))
    kinds = []
    for gpu in (full, empty):
        resources = dataclasses.replace(PROFILE.resources, gpu=gpu)
        kinds.append([f.kind for f in waste.find(evidence(log, modules=modules, resources=resources))])
    assert kinds == [[], ["checkpointing"]]
