"""What a run does besides training: evaluating, saving, logging."""

from __future__ import annotations

from collections.abc import Iterator

from upshift.diagnose.finding import Evidence, Finding, milliseconds, percent

_LEAST = 0.05
_INDIRECT = 1.2
"""Steps after an interruption are slower as well: caches are cold, memory has been given back."""


def find(evidence: Evidence) -> Iterator[Finding]:
    """Each by its share of the time watched."""
    run = evidence.profile.run
    watched = run.watched_seconds
    if not watched:
        return
    for kind, total, count, verb in (
        ("evaluation", run.evaluation_seconds, run.evaluations, "evaluate"),
        ("saving", run.checkpoint_seconds, run.checkpoints, "save"),
    ):
        share = total / watched
        # Once may be chance: where in the run the watching began and ended.
        if count >= 2 and share >= max(_LEAST, evidence.noise):
            name = evidence.names.of(kind)
            steps = evidence.profile.observed / count
            yield Finding(
                kind=kind,
                title=f"{kind} takes {percent(share)} of the run",
                evidence=(
                    f"{count} times in {evidence.profile.observed} steps, {milliseconds(total / count)} each",
                ),
                saves=share * 0.9,
                bound=min(1.0, share * _INDIRECT),
                measured=True,
                fix=f"{verb} ten times less often ({name or f'now every {steps:.0f} steps or so'}), or "
                + ("on a part of the data" if kind == "evaluation" else "in the background"),
                where=name,
            )
    logging = evidence.phase("logging")
    if evidence.of_run(logging) >= max(_LEAST, evidence.noise):
        place = next((p.places for p in evidence.profile.phases if p.name == "logging"), ())
        yield Finding(
            kind="logging",
            title=f"logging takes {percent(logging)} of a step",
            evidence=(f"{milliseconds(logging * evidence.profile.step_mean)} a step",),
            saves=evidence.of_run(logging) * 0.9,
            bound=min(1.0, evidence.of_run(logging) * _INDIRECT),
            measured=True,
            fix=f"log less often ({evidence.names.of('logging') or 'every 50 or 100 steps'})",
            where=str(place[0]) if place else None,
        )
