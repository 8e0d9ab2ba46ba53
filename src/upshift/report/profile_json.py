"""Profile → the document `upshift.profile/1`."""

from __future__ import annotations

from typing import Any

from upshift.diagnose.diagnosis import Diagnosis
from upshift.diagnose.finding import Finding
from upshift.diagnose.limit import Limit
from upshift.measure.profile import Phase, Profile

SCHEMA = "upshift.profile/1"
_LEAST_MODULE = 0.005


def document(profile: Profile, diagnosis: Diagnosis) -> dict[str, Any]:
    """Everything measured. null means not measured, never zero."""
    batch = profile.batch
    effective = None
    if batch.micro_batch is not None and batch.grad_accum is not None:
        effective = batch.micro_batch * batch.grad_accum * profile.world_size
    run = profile.run
    resources = profile.resources
    return {
        "schema": SCHEMA,
        "command": profile.command,
        "device": profile.device,
        "torch": profile.torch,
        "world_size": profile.world_size,
        "steps": {
            "observed": profile.observed,
            "used": profile.used,
            "warmup": profile.warmup,
            "skipped": profile.skipped,
        },
        "step_seconds": {
            "median": profile.step.median,
            "low": profile.step.low,
            "high": profile.step.high,
            "mean": profile.step_mean,
        },
        "samples_per_second": profile.samples_per_second,
        "tokens_per_second": profile.tokens_per_second,
        "padding_share": batch.padding_share,
        "sequence_length": {"median": batch.length_median, "max": batch.length_max},
        "micro_batch": batch.micro_batch,
        "micro_batch_varies": batch.varies,
        "grad_accum": batch.grad_accum,
        "effective_batch": effective,
        "model_calls_per_micro_step": batch.calls,
        "optimizers": list(profile.optimizers),
        "phases": [_phase(p) for p in profile.phases],
        "run": {
            "startup_seconds": run.startup_seconds,
            "watched_seconds": run.watched_seconds,
            "evaluation": _part(run.evaluation_seconds, run.evaluations, run.watched_seconds),
            "checkpoint": _part(run.checkpoint_seconds, run.checkpoints, run.watched_seconds),
        },
        "modules": _modules(profile),
        "findings": [_finding(f) for f in diagnosis.findings],
        "leave_it": diagnosis.leave_it,
        "memory": {
            "peak_bytes": resources.peak_bytes,
            "tree_peak_bytes": resources.tree_peak_bytes,
            "swap_bytes": resources.swap_bytes,
            "major_faults": resources.major_faults,
        },
        "cpu": {"busy_cores": resources.cpu_cores, "cores": resources.cores},
        "gpu": list(resources.gpu),
        "limit": _limit(diagnosis.limit),
        "experiments_failed": list(diagnosis.failed),
        "agent": {
            "overhead_share": profile.agent.overhead_share,
            "dropped": profile.agent.dropped,
            "probe_failures": list(profile.agent.probe_failures),
        },
        "isolation": {"kind": profile.isolation, "note": profile.isolation_note},
        "ended_by": profile.ended_by,
    }


def _modules(profile: Profile) -> list[dict[str, Any]]:
    """Every module that takes a part worth naming, forward and backward together."""
    if profile.modules is None:
        return []
    return [
        {
            "name": m.name,
            "kind": m.kind,
            "where": m.where,
            "calls_per_step": m.calls,
            "seconds": m.seconds,
            "share": m.seconds / profile.step_mean,
            "forward_seconds": m.forward,
            "forward_own_seconds": m.own,
            "backward_seconds": m.backward,
            "parameters": m.parameters,
            "frozen": m.frozen,
        }
        for m in profile.modules.walk()
        if m.seconds / profile.step_mean >= _LEAST_MODULE or m.name.count(".") <= 1
    ]


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "title": finding.title,
        "evidence": list(finding.evidence),
        "saves_share": finding.saves,
        "bound_share": finding.bound,
        "measured": finding.measured,
        "fix": finding.fix,
        "where": finding.where,
        "overlaps": list(finding.overlaps),
    }


def _limit(limit: Limit | None) -> dict[str, Any] | None:
    if limit is None:
        return None
    return {
        "compute_share": limit.share,
        "flops_per_step": limit.flops,
        "measured_flops_per_second": limit.peak,
        "stated_flops_per_second": limit.stated,
        "measured_bytes_per_second": limit.bandwidth,
        "threads": limit.threads,
        "input_factor": limit.input_factor,
    }


def _phase(phase: Phase) -> dict[str, Any]:
    return {
        "name": phase.name,
        "seconds": phase.seconds,
        "share": phase.share,
        "where": str(phase.places[0]) if phase.places else None,
        "places": [
            {"file": p.file, "line": p.line, "function": p.function, "share": p.share} for p in phase.places
        ],
        "note": phase.note,
    }


def _part(seconds: float, count: int, watched: float) -> dict[str, Any]:
    return {
        "count": count,
        "seconds": seconds if count else None,
        "share": seconds / watched if count and watched else None,
    }
