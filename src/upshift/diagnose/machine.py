"""What machine and runtime do to the run: page faults, neighbours, fallbacks, compilation, synchronisation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from upshift.diagnose.finding import Evidence, Finding, milliseconds, percent
from upshift.report import units

_FAULTS_PER_STEP = 20
_MANY_BREAKS = 2
_MANY_PIECES = 4
_FALLBACK = re.compile(
    r"The operator '([^']+)' is not currently supported on the MPS backend and will fall back"
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One after the other."""
    yield from _memory(evidence)
    yield from _neighbours(evidence)
    yield from _fallback(evidence)
    yield from _compilation(evidence)
    yield from _synchronisation(evidence)


def _memory(e: Evidence) -> Iterator[Finding]:
    resources = e.profile.resources
    faults = (resources.major_faults or 0) / max(1, e.profile.observed)
    swapped = (resources.swap_bytes or 0) > 64 << 20
    if faults < _FAULTS_PER_STEP:
        return
    stalled = resources.stalled_share
    lines = [f"{faults:.0f} major page faults a step: each waits for the disk"]
    if swapped:
        lines.append(f"{units.size(resources.swap_bytes or 0)} swapped out")
    yield Finding(
        kind="page_faults",
        title="memory is read back from disk while training" if not swapped else "the run is swapping",
        evidence=tuple(lines),
        saves=stalled if stalled and stalled >= e.noise else None,
        bound=None,
        measured=False,
        fix="use less memory than the machine has (smaller batch, fewer workers)"
        if swapped
        else "read the data into memory once, or keep the memory-mapped file where it stays cached",
    )


def _neighbours(e: Evidence) -> Iterator[Finding]:
    resources = e.profile.resources
    if resources.crowded:
        assert resources.other_cores is not None
        yield Finding(
            kind="other_process",
            title=f"another program keeps {resources.other_cores:.1f} of {resources.cores} cores busy",
            evidence=(", ".join(resources.other_processes), f"the run has {resources.cpu_cores:.1f} cores"),
            saves=None,
            bound=min(1.0, resources.other_cores / resources.cores),
            measured=False,
            fix="stop it, or move one of the two elsewhere; figures measured meanwhile are too slow",
        )
    for gpu in resources.gpu:
        strangers = str(gpu.get("other_processes") or "")
        if strangers:
            yield Finding(
                kind="other_process",
                title=f"another process is on {gpu['name']}",
                evidence=(strangers,),
                saves=None,
                bound=None,
                measured=False,
                fix="stop it, or use another device (CUDA_VISIBLE_DEVICES)",
            )


def _fallback(e: Evidence) -> Iterator[Finding]:
    operators = sorted(set(_FALLBACK.findall(e.output)))
    if operators:
        yield Finding(
            kind="mps_fallback",
            title="operators run on the CPU for want of an MPS version",
            evidence=(", ".join(operators[:6]),),
            saves=None,
            bound=None,
            measured=False,
            fix="replace them by operators that MPS has, or keep that part of the model on the CPU on purpose",
        )


def _compilation(e: Evidence) -> Iterator[Finding]:
    events = e.log.compiled
    if not events:
        return
    last = events[-1]
    # The first compilations are the price of torch.compile; those in the middle of the run are not.
    settled = [x for x in events if x["steps"] <= e.profile.warmup + 5] or events[:1]
    again = last["graphs"] - settled[-1]["graphs"]
    spent = last["seconds"] - settled[-1]["seconds"]
    time = last["mono"] - settled[-1]["mono"]
    if again >= 3 and time > 0 and spent / time >= e.noise:
        share = spent / time
        yield Finding(
            kind="recompiles",
            title="torch.compile compiles again and again",
            evidence=(
                f"{again} more graphs after step {settled[-1]['steps']}, {milliseconds(spent / again)} each",
                f"{percent(share)} of the time is compiling",
            ),
            saves=e.of_run(share),
            bound=min(1.0, e.of_run(share) * 1.2),
            measured=True,
            fix="keep shapes few (pad to multiples), mark_dynamic what varies, or compile with dynamic=True",
        )
    # dynamo counts a line once, however often it breaks there: the pieces tell how much it matters.
    if last["breaks"] >= _MANY_BREAKS and last["graphs"] >= _MANY_PIECES:
        yield Finding(
            kind="graph_breaks",
            title=f"graph breaks: the model is compiled in {last['graphs']} pieces",
            evidence=(f"{last['breaks']} breaks", *last["reasons"]),
            saves=None,
            bound=None,
            measured=False,
            fix="mend the first reason given; TORCH_LOGS=graph_breaks shows the lines",
        )


def _synchronisation(e: Evidence) -> Iterator[Finding]:
    syncs = e.log.syncs
    if not syncs or not syncs["steps"]:
        return
    rows = sorted(syncs["rows"], key=lambda row: -row[3])
    seconds = sum(row[3] for row in rows) / syncs["steps"]
    share = seconds / e.profile.step_mean
    if e.of_run(share) < e.noise:
        return
    name, where, calls, spent = rows[0]
    yield Finding(
        kind="synchronisation",
        title="the host waits for the GPU in the middle of a step",
        evidence=tuple(
            f".{n}() at {e.near(w) or '?'}: {c / syncs['steps']:.1f} a step, {milliseconds(s / syncs['steps'])}"
            for n, w, c, s in rows[:3]
        ),
        saves=None,
        bound=e.of_run(share),
        measured=False,
        fix=f"read the value every 50 steps, or keep it on the GPU (detach and accumulate) instead of .{name}()",
        where=e.near(where),
    )
