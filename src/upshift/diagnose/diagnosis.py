"""Outcome and profile → what is wrong, ranked, and what to say first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upshift.diagnose import batch, cadence, compute, data, machine, ranks, waste
from upshift.diagnose.finding import Evidence, Family, Finding
from upshift.diagnose.limit import Limit, limit
from upshift.diagnose.names import names
from upshift.measure.profile import Profile, steady, training
from upshift.session import Outcome

FAMILIES: tuple[Family, ...] = (
    batch.find,
    data.find,
    compute.find,
    waste.find,
    cadence.find,
    machine.find,
    ranks.find,
)
WORTH = 0.05
"""A run is left alone when nothing would save this share of it."""


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """Why the run takes as long as it does."""

    findings: tuple[Finding, ...]
    """Biggest saving first; those whose saving is not known last."""
    limit: Limit | None
    failed: tuple[str, ...]
    """Experiments that could not be made, and why."""

    @property
    def leave_it(self) -> bool:
        """Nothing found that would pay."""
        return not any(f.saves is None or f.saves >= WORTH for f in self.findings)


def diagnose(outcome: Outcome, profile: Profile) -> Diagnosis:
    """Ask every family."""
    evidence = gather(outcome, profile)
    findings = [finding for family in FAMILIES for finding in family(evidence)]
    return Diagnosis(
        findings=tuple(sorted(findings, key=lambda f: -1.0 if f.saves is None else f.saves, reverse=True)),
        limit=limit(evidence),
        failed=tuple(
            f"{name}: {event['error']}"
            for name, event in evidence.log.experiments.items()
            if event["error"] is not None
        ),
    )


def gather(outcome: Outcome, profile: Profile) -> Evidence:
    """All that is known of the run."""
    log = training(outcome.processes)
    assert log is not None
    whole, dropped = steady(log)
    return Evidence(
        profile=profile,
        log=log,
        ranks=tuple(p for p in outcome.processes if p.active),
        used=whole[dropped:],
        fetched=tuple(
            f for p in outcome.processes for f in p.fetched if not f["evaluation"] and f["batches"]
        ),
        names=names(outcome.command),
        output=outcome.stderr + outcome.stdout,
        cwd=Path(outcome.command.cwd),
    )
