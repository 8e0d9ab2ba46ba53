"""What a run does besides training: evaluating, saving, logging."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import mean, median

from upshift.diagnose.finding import Evidence, Finding, milliseconds, percent
from upshift.inject.upshift_agent.events import CHECKPOINT
from upshift.measure.iterations import Iteration

_LEAST = 0.05


def find(evidence: Evidence) -> Iterator[Finding]:
    """Each by its share of the time watched."""
    run = evidence.profile.run
    watched = run.watched_seconds
    if not watched:
        return
    for kind, total, count, verb, interrupted in (
        ("evaluation", run.evaluation_seconds, run.evaluations, "evaluate", _evaluated),
        ("saving", run.checkpoint_seconds, run.checkpoints, "save", _saved),
    ):
        share = total / watched
        after = _slower_after(evidence, interrupted)
        without = _tried(evidence, kind)
        # The time inside the calls is gone for sure; the disk still writes while steps without them are tried.
        all_of_it = min(1.0, share + after * count / watched) if without is None else max(share, without)
        # Once may be chance: where in the run the watching began and ended.
        if count >= 2 and share >= max(_LEAST, evidence.noise):
            name = evidence.names.of(kind)
            steps = evidence.profile.observed / count
            yield Finding(
                kind=kind,
                title=f"{kind} takes {percent(share)} of the run",
                evidence=(
                    f"{count} times in {evidence.profile.observed} steps, {milliseconds(total / count)} each",
                    *(
                        [f"the step after it takes {milliseconds(after)} more"]
                        if after * count >= 0.01 * watched
                        else []
                    ),
                    *([f"steps without it take {percent(without)} less"] if without is not None else []),
                ),
                saves=all_of_it * 0.9,
                bound=max(share, all_of_it),
                measured=True,
                fix=f"{verb} ten times less often ({name or f'now every {steps:.0f} steps or so'}), or "
                + ("on a part of the data" if kind == "evaluation" else "in the background"),
                where=name,
            )
    written = evidence.phase("logging")
    made, inseparable = _made_to_be_logged(evidence)
    without = _tried(evidence, "logging")
    # Steps with and without it, in turn, beat the time inside the calls: that counts the watching of each call too.
    logging = (written if without is None else without) + made
    if evidence.of_run(logging) >= max(_LEAST, evidence.noise):
        place = next((p.places for p in evidence.profile.phases if p.name == "logging"), ())
        yield Finding(
            kind="logging",
            title=f"logging takes {percent(logging)} of a step",
            evidence=(
                f"{milliseconds(logging * evidence.profile.step_mean)} a step",
                *([f"{percent(made)} makes what is logged"] if made >= 0.01 else []),
            ),
            saves=evidence.of_run(logging) * 0.9,
            bound=min(1.0, evidence.of_run(logging + inseparable)),
            measured=True,
            fix=f"log less often ({evidence.names.of('logging') or 'every 50 or 100 steps'})",
            where=str(place[0]) if place else None,
        )


def _tried(evidence: Evidence, kind: str) -> float | None:
    """Share of the time that steps without it were seen to save; None where that was not tried."""
    tried = (evidence.result("aside") or {}).get(kind)
    return max(0.0, 1 - mean(tried["without"]) / mean(tried["with"])) if tried else None


def _evaluated(iteration: Iteration) -> bool:
    return iteration.evaluation > 0


def _saved(iteration: Iteration) -> bool:
    return bool(iteration.phases[CHECKPOINT] > 0)


def _slower_after(e: Evidence, interrupted: Callable[[Iteration], bool]) -> float:
    """Seconds by which a step after an interruption is slower than others: caches are cold, memory was given back."""
    after = [i.seconds for i in e.used if interrupted(i)]
    others = [i.seconds for i in e.used if not interrupted(i)]
    if len(after) < 3 or len(others) < 3:
        return 0.0
    return max(0.0, median(after) - median(others))


def _made_to_be_logged(e: Evidence) -> tuple[float, float]:
    """Shares of a step outside torch, in functions that log: in those that do nothing else, and in the others."""
    places = {p.name: p.places for p in e.profile.phases}
    log = {(p.file, p.function) for p in places.get("logging", ())}
    train = {
        (p.file, p.function) for name in ("forward", "backward", "optimizer") for p in places.get(name, ())
    }
    other = e.phase("other")
    apart = sum(p.share for p in places.get("other", ()) if (p.file, p.function) in log - train)
    mixed = sum(p.share for p in places.get("other", ()) if (p.file, p.function) in log & train)
    return other * apart, other * mixed
