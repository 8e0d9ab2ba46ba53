"""Several ranks: gradients exchanged too often, work spread unevenly."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from upshift.diagnose.finding import Evidence, Finding, milliseconds, percent
from upshift.eventlog import ProcessLog
from upshift.inject.upshift_agent.events import BACKWARD, DATA, FORWARD, LOSS

_UNEVEN = 1.15
_USUALLY = 0.8


def find(evidence: Evidence) -> Iterator[Finding]:
    """Only where there is more than one rank."""
    if evidence.profile.world_size > 1:
        yield from _no_sync(evidence)
        yield from _uneven(evidence)


def _no_sync(e: Evidence) -> Iterator[Finding]:
    accumulation = e.profile.batch.grad_accum or 1
    event = e.log.modules
    if accumulation < 2 or event is None or not event["synchronised"]:
        return
    share = event["synchronised"] / max(1, event["distributed"])
    if share < 0.9:
        return
    # The model without its exchange, on the same inputs, against forward and backward as they are.
    result = e.result("calls")
    step = e.profile.step_mean
    with_exchange = e.phase("forward", "backward") * step / accumulation
    measured = bool(result and result["used"])
    exchange = e.phase("backward") * step / accumulation
    if measured:
        exchange = max(0.0, with_exchange - result["seconds"]["separate"] / result["used"])
    saves = e.of_run(exchange * (accumulation - 1) / step)
    if saves < e.noise:
        return
    yield Finding(
        kind="no_sync",
        title="gradients are exchanged after every micro-batch",
        evidence=(
            f"{accumulation} micro-batches a step, each ends with an exchange of about {milliseconds(exchange)}",
            "one exchange, with the last micro-batch, gives the same gradients",
        ),
        saves=saves,
        bound=min(1.0, e.of_run(e.phase("backward", "forward") * (accumulation - 1) / accumulation)),
        measured=measured,
        fix="wrap all but the last micro-batch in model.no_sync()",
    )


def _uneven(e: Evidence) -> Iterator[Finding]:
    ranks = [r for r in e.ranks if len(r.steps) > 4]
    if len(ranks) < 2:
        return
    work = {r.rank: _own_seconds(r) for r in ranks}
    # Whoever is done first waits in the backward: the slowest rank's backward is what a backward takes.
    slowest = max(work, key=lambda rank: work[rank][0])
    factor = work[slowest][1] / work[slowest][0] if work[slowest][0] else 0.0
    whole = {rank: own * (1 + factor) for rank, (own, _) in work.items()}
    mean = fmean(whole.values())
    fastest = min(whole, key=lambda rank: whole[rank])
    if whole[slowest] < _UNEVEN * mean or not _always(ranks, slowest, fastest):
        return
    share = (whole[slowest] - mean) / e.profile.step_mean
    saves = e.of_run(share)
    if saves < e.noise:
        return
    yield Finding(
        kind="unbalanced_ranks",
        title=f"rank {fastest} waits for rank {slowest}",
        evidence=(
            f"before the exchange: rank {slowest} {milliseconds(work[slowest][0])}, "
            f"rank {fastest} {milliseconds(work[fastest][0])} a step",
            f"{percent(1 - whole[fastest] / whole[slowest])} of rank {fastest}'s time is waiting",
        ),
        saves=saves,
        bound=min(1.0, saves * 1.25),
        measured=False,
        fix="give every rank the same amount of work: shard by length or tokens, not by count",
    )


def _always(ranks: list[ProcessLog], slowest: int, fastest: int) -> bool:
    """Is it the same rank in nearly every step? Else it is chance, and evens out."""
    slow, fast = (next(r for r in ranks if r.rank == rank).steps[2:] for rank in (slowest, fastest))
    pairs = [
        (_before_backward(a["phases"]), _before_backward(b["phases"]))
        for a, b in zip(slow, fast, strict=False)
    ]
    return sum(a > 1.05 * b for a, b in pairs) >= _USUALLY * len(pairs)


def _before_backward(phases: list[float]) -> float:
    return float(phases[FORWARD] + phases[LOSS] + phases[DATA])


def _own_seconds(log: ProcessLog) -> tuple[float, float]:
    """(seconds before the backward, seconds in it) of an average step."""
    rows = [row["phases"] for row in log.steps[2:]]
    own = fmean(_before_backward(row) for row in rows)
    return own, fmean(row[BACKWARD] for row in rows)
