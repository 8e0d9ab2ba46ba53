"""The same arithmetic, faster: precision, threads, the optimizer's implementation. All tried in the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from upshift.diagnose.finding import Evidence, Finding, milliseconds, percent

_LEAST_RATIO = 0.93
"""A variant counts as faster when it takes less than this share of the time."""


def find(evidence: Evidence) -> Iterator[Finding]:
    """Precision, then threads, then the optimizer."""
    result = evidence.result("calls")
    if result:
        times = result["variants"]["seconds"]
        now = times.get("as it is")
        if now:
            yield from _precision(evidence, result, times, now)
            yield from _threads(evidence, times, now)
    yield from _optimizer(evidence)


def _precision(e: Evidence, result: dict[str, Any], times: dict[str, float], now: float) -> Iterator[Finding]:
    model = e.phase("forward", "backward")
    current = result["autocast"] or result["dtype"]
    slow = {name: times[name] for name in ("no autocast", "float32") if name in times}
    if slow:
        best = min(slow, key=lambda name: slow[name])
        saves = e.of_run(model * (1 - slow[best] / now))
        if slow[best] < _LEAST_RATIO * now and saves >= e.noise:
            lower = result["dtype"] == "float64"
            yield Finding(
                kind="precision_high" if lower else "precision_slow",
                title=f"{current} is slower than float32 on this device",
                evidence=(
                    f"the same calls: {current} {milliseconds(now)}, float32 {milliseconds(slow[best])}",
                    "measured on the model and inputs of this run",
                ),
                saves=saves,
                bound=min(
                    1.0,
                    e.of_run((model + e.phase("loss", "optimizer", "other")) * (1 - slow[best] / now) * 1.1),
                ),
                measured=True,
                fix="train in float32 (half the memory of float64; changes results by rounding)"
                if lower
                else f"switch {current} off (autocast, bf16=True, precision=…): here it is emulated",
            )
            return
    for name in ("bfloat16", "float16"):
        if name in times and times[name] < _LEAST_RATIO * now:
            saves = e.of_run(model * (1 - times[name] / now))
            if saves >= e.noise:
                yield Finding(
                    kind="precision_high",
                    title=f"{current} where {name} is faster on this device",
                    evidence=(
                        f"the same calls: {current} {milliseconds(now)}, {name} {milliseconds(times[name])}",
                    ),
                    saves=saves,
                    bound=e.of_run(model * (1 - times[name] / now) * 1.1),
                    measured=True,
                    fix=f"run the forward and the loss under torch.autocast with {name}"
                    + (" and a GradScaler" if name == "float16" else ""),
                )
                return


def _threads(e: Evidence, times: dict[str, float], now: float) -> Iterator[Finding]:
    tried = {int(name.partition(":")[2]): t for name, t in times.items() if name.startswith("threads:")}
    facts = e.log.facts
    if not tried or facts is None:
        return
    current = facts["threads"]
    best = min(tried, key=lambda number: tried[number])
    model = e.phase("forward", "backward", "loss", "optimizer")
    share = 1 - tried[best] / now
    saves = e.of_run(model * share)
    if tried[best] >= _LEAST_RATIO * now or saves < e.noise:
        return
    many = current > best
    if not many and (e.profile.resources.other_cores or 0.0) > 0.5:
        return  # cores that somebody else holds are not ours to use
    loader = e.loader
    lines = [
        f"the same calls: {current} thread{'s' if current > 1 else ''} {milliseconds(now)}, "
        f"{best} {milliseconds(tried[best])}",
        f"{e.profile.resources.cores} cores here",
    ]
    if loader is not None and loader["workers"]:
        lines.append(f"{loader['workers']} loader workers beside them")
    yield Finding(
        kind="threads_many" if many else "threads_few",
        title=f"{current} compute threads are too {'many' if many else 'few'}",
        evidence=tuple(lines),
        saves=saves,
        bound=min(
            1.0,
            e.of_run(
                (model + e.phase("other", "data_wait")) * max(share, 1 - best / max(current, best)) * 1.1
            ),
        )
        if many
        else min(1.0, e.of_run(model * (1 - current / best))),
        measured=True,
        fix=f"OMP_NUM_THREADS={best} (or torch.set_num_threads({best}))",
    )


def _optimizer(e: Evidence) -> Iterator[Finding]:
    result = e.result("optimizer")
    if not result:
        return
    times = dict(result["seconds"])
    now = times.pop("as it is", None)
    if not times or not now:
        return
    best = min(times, key=lambda name: times[name])
    # The ratio is tried, again and again on warm caches; the seconds are those of the run.
    share = e.phase("optimizer") * (1 - times[best] / now)
    saves = e.of_run(share)
    if times[best] >= _LEAST_RATIO * now or saves < e.noise:
        return
    flag = {"for-loop": "foreach=False", "foreach": "foreach=True", "fused": "fused=True"}[best]
    yield Finding(
        kind="optimizer",
        title=f"{result['optimizer']}.step is slow as it is set up",
        evidence=(
            f"{result['parameters']} parameters: {milliseconds(now)} a step now, {best} {milliseconds(times[best])}",
            f"the optimizer phase is {percent(e.phase('optimizer'))} of a step",
        ),
        saves=saves,
        bound=e.of_run(e.phase("optimizer")),
        measured=True,
        fix=f"{result['optimizer']}(…, {flag})",
    )
