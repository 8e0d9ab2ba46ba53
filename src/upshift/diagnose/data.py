"""Waiting for data: how long, what for, and whether the loader is set up to hide it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from upshift.diagnose.finding import Evidence, Finding, milliseconds, percent
from upshift.inject.upshift_agent.events import DATA

_IDLE_CORES = 0.5
_WORTH_A_WORKER = 4e-3
"""Handing a batch over from another process costs a millisecond or two: one quicker to make is made here."""
_HANDING_OVER = 0.2
"""Workers that keep up still have to hand each batch over: up to this share of a (short) step is that."""


@dataclass(frozen=True, kw_only=True)
class Making:
    """One batch's making, seconds."""

    storage: float
    """Neither computing nor waiting for a core: waiting for a disk, a network, a lock."""
    decoding: float
    queueing: float
    """Waiting for a core."""
    collating: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.storage + self.decoding + self.queueing + self.collating


def find(evidence: Evidence) -> Iterator[Finding]:
    """The stall itself, then the workers."""
    stall = _stall(evidence)
    if stall is not None:
        yield stall
    yield from _workers(evidence, stall)


def making(e: Evidence) -> Making | None:
    """Mean over the batches that were timed."""
    batches = sum(f["batches"] for f in e.fetched)
    if not batches:
        return None
    wall, cpu, queued, collate = (
        sum(f[k] for f in e.fetched) / batches for k in ("getting", "cpu", "queued", "collate")
    )
    return Making(storage=max(0.0, wall - cpu - queued), decoding=cpu, queueing=queued, collating=collate)


def _stall(e: Evidence) -> Finding | None:
    waiting = e.phase("data_wait")
    replay = e.result("replay")
    saves, measured = waiting, False
    if replay and len(replay["step_seconds"]) >= 4:
        measured = True
        fed = median(replay["step_seconds"])
        if e.loader is not None and e.loader["workers"]:
            # Workers fill their queue while nobody asks: the steps beside would not wait. So against the run's own,
            # which were made at another moment of the machine: no more than the wait is believed.
            saves = min(max(0.0, 1 - fed / e.profile.step.median), waiting)
        else:
            # In turn with steps that wait. It may be more than the wait: making batches also cools the caches.
            saves = max(0.0, 1 - fed / median(replay["waiting_seconds"]))
    parts = making(e)
    if waiting < e.noise or e.of_run(saves) < e.noise:
        return None
    if waiting < _HANDING_OVER and _keeps_up(e, parts):
        return None
    lines = [f"{percent(waiting)} of a step waits for the next batch"]
    where, fix = None, "make batches ahead of time, in other processes or threads"
    if e.loader is not None and parts is not None and parts.seconds:
        each = {"storage": parts.storage, "decoding": parts.decoding, "collation": parts.collating}
        lines.append(
            f"a batch takes {milliseconds(parts.seconds)} to make: "
            + ", ".join(f"{name} {percent(s / parts.seconds)}" for name, s in each.items() if s > 0)
        )
        largest = max(each, key=lambda name: each[name])
        where = e.loader["collate_where"] if largest == "collation" else e.loader["dataset_where"]
        fix = {
            "storage": "read from a local copy, or let more workers wait at the same time",
            "decoding": "decode once and keep the result, or decode in workers",
            "collation": "collate in fewer Python steps, or in workers",
        }[largest]
        lines.append(f"mostly {largest}")
    if where is None:
        place = next((p.places for p in e.profile.phases if p.name == "data_wait"), ())
        where = str(place[0]) if place else None
    if measured:
        assert replay is not None
        lines.append(
            f"on batches already in memory a step takes {milliseconds(median(replay['step_seconds']))}"
        )
    return Finding(
        kind="data_wait",
        title="the training waits for data",
        evidence=tuple(lines),
        saves=e.of_run(saves),
        bound=e.of_run(max(saves, waiting)),
        measured=measured,
        fix=fix,
        where=e.near(where),
    )


def _workers(e: Evidence, stall: Finding | None) -> Iterator[Finding]:
    loader = e.loader
    if loader is None:
        return
    workers = loader["workers"]
    parts = making(e)
    flag = e.names.of("workers", workers) or "num_workers"
    where = e.near(loader["where"])
    idle = e.profile.resources.cores - (e.profile.resources.cpu_cores or 0.0)
    waits = parts is not None and parts.storage > 0.5 * parts.seconds
    if stall is not None and (idle >= _IDLE_CORES or waits) and stall.saves is not None:
        wanted = _wanted(e, parts, waits)
        if workers == 0 and (parts is None or parts.seconds >= _WORTH_A_WORKER):
            yield Finding(
                kind="workers_zero",
                title="batches are made in the training process itself",
                evidence=("num_workers=0: nothing is prepared while the model computes", *_why(idle, waits)),
                saves=stall.saves * 0.9,
                bound=stall.bound,
                measured=False,
                fix=f"{flag} 0 → {wanted}",
                where=where,
                overlaps=("data_wait",),
            )
        elif 0 < workers < wanted:
            yield Finding(
                kind="workers_few",
                title=f"{workers} worker{'s' if workers > 1 else ''} cannot keep up",
                evidence=(
                    f"a batch takes a worker {milliseconds(parts.seconds) if parts else '?'}, "
                    f"the training {milliseconds(_per_batch(e))}",
                    *_why(idle, waits),
                ),
                saves=stall.saves,
                bound=stall.bound,
                measured=False,
                fix=f"{flag} {workers} → {wanted}",
                where=where,
                overlaps=("data_wait",),
            )
    if workers:
        yield from _starts(e, workers, parts, flag, where)
    if e.profile.device == "cuda" and not loader["pinned"] and e.phase("host_to_device") >= e.noise:
        yield Finding(
            kind="memory_not_pinned",
            title="batches are copied to the GPU from pageable memory",
            evidence=(f"{percent(e.phase('host_to_device'))} of a step is copying", "pin_memory=False"),
            saves=None,
            bound=e.of_run(e.phase("host_to_device")),
            measured=False,
            fix="pin_memory=True, and non_blocking=True where the batch is moved",
            where=where,
        )


def _why(idle: float, waits: bool) -> Iterator[str]:
    if idle >= _IDLE_CORES:
        yield f"{idle:.1f} cores are idle"
    if waits:
        yield "most of a batch's making is waiting, which takes no core"


def _keeps_up(e: Evidence, parts: Making | None) -> bool:
    workers = e.loader["workers"] if e.loader is not None else 0
    return bool(workers and parts and parts.seconds / workers < 0.9 * _per_batch(e))


def _per_batch(e: Evidence) -> float:
    """Seconds the training itself needs for one batch of the loader."""
    fetches = sum(m.fetches for i in e.used for m in i.micro) / len(e.used)
    return e.profile.step_mean * (1 - e.phase("data_wait")) / max(fetches, 1e-9)


def _wanted(e: Evidence, parts: Making | None, waits: bool) -> int:
    """Workers that make batches as fast as they are used; no more than there are cores, unless they wait."""
    if parts is None:
        return 2
    needed = math.ceil(1.2 * parts.seconds / max(_per_batch(e), 1e-6))
    most = 16 if waits else max(1, e.profile.resources.cores)
    return max(1, min(needed, most))


def _starts(
    e: Evidence, workers: int, parts: Making | None, flag: str, where: str | None
) -> Iterator[Finding]:
    """Workers started anew with every epoch, and more of them than there is work for."""
    begun = [x["steps"] for x in e.log.loaders if not x["evaluation"] and x["workers"] and x["steps"] > 2]
    rows = {row["index"]: row["phases"][DATA] for row in e.log.steps}
    usual = median(rows.values()) if rows else 0.0
    # An epoch's first batch carries the start of the workers and their first fetch.
    extra = [rows[s] - usual for s in begun if s in rows]
    watched = e.profile.run.watched_seconds
    if not extra or not watched:
        return
    share = sum(extra) / watched
    needed = _wanted(e, parts, waits=True)
    if share < e.noise:
        return
    persistent = e.loader is not None and e.loader["persistent"]
    lines = (
        f"{len(extra)} epochs began while watching, {milliseconds(sum(extra) / len(extra))} lost at each start",
    )
    if workers > max(2 * needed, e.profile.resources.cores):
        saves = share * (1 - needed / workers)
        yield Finding(
            kind="workers_many",
            title=f"{workers} workers where {needed} would do",
            evidence=(
                *lines,
                f"{e.profile.resources.cores} cores; a batch takes a worker "
                f"{milliseconds(parts.seconds) if parts else '?'}",
            ),
            saves=saves,
            bound=share,
            measured=False,
            fix=f"{flag} {workers} → {needed}",
            where=where,
            overlaps=("workers_restarted",),
        )
    if not persistent:
        yield Finding(
            kind="workers_restarted",
            title="workers are started anew in every epoch",
            evidence=lines,
            saves=share,
            bound=share,
            measured=True,
            fix="persistent_workers=True (the order of samples changes from the second epoch on)",
            where=where,
            overlaps=("data_wait",),
        )
