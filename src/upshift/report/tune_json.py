"""The document `upshift.tune/1`."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from upshift.apply import Applied
from upshift.plan import Plan
from upshift.search.trial import Trial
from upshift.verify.verdict import Verdict

SCHEMA = "upshift.tune/1"


def document(plan: Plan, applied: Applied | None) -> dict[str, Any]:
    """The plan and all it rests on."""
    return {
        "schema": SCHEMA,
        "command": list(plan.now.command.argv),
        "baseline": _side(plan.baseline),
        "best": {"settings": dict(plan.values), **_side(plan.best)},
        "speedup": {
            "ratio": plan.speedup.ratio,
            "low": plan.speedup.low,
            "high": plan.speedup.high if math.isfinite(plan.speedup.high) else None,
            "starts": plan.speedup.starts,
        }
        if plan.speedup and plan.settings
        else None,
        "verdict": _verdict(plan.verdict) if plan.verdict else None,
        "settings": [
            {
                "knob": s.knob,
                "before": s.before,
                "after": s.after,
                "effect": s.effect,
                "gain": s.gain,
                "reason": s.reason,
                "verdict": s.verdict.kind,
                "binding": str(s.binding),
            }
            for s in plan.settings
        ],
        "quality": [
            {
                "knob": c.knob,
                "binding": str(c.binding) if c.binding else None,
                "before": c.before,
                "after": c.after,
                "time": c.time,
                "loss_at_equal_steps": asdict(c.equal_steps) if c.equal_steps else None,
                "loss_at_equal_time": asdict(c.equal_time) if c.equal_time else None,
                "validation": c.validation,
                "extrapolated": c.extrapolated,
            }
            for c in plan.quality
        ],
        "trials": [t.document() for t in plan.trials],
        "rejected": [{"what": what, "why": why} for what, why in plan.rejected],
        "notes": list(plan.notes),
        "tuning_seconds": plan.tuning_seconds,
        "beside": [asdict(b) for b in plan.beside],
        "run_speedup": plan.run_ratio,
        "whole": {
            "steps": plan.length.steps,
            "told_by": str(plan.length.told_by) if plan.length.told_by else None,
            "seconds": list(plan.whole_seconds),
        }
        if plan.length and plan.whole_seconds
        else None,
        "applied": {
            "command": list(applied.command),
            "environment": dict(applied.variables),
            "files": [str(f) for f in applied.files],
            "patch": str(applied.patch) if applied.patch else None,
            "patch_root": str(applied.patch_root) if applied.patch_root else None,
            "diff": applied.diff,
        }
        if applied
        else None,
    }


def _side(trial: Trial) -> dict[str, Any]:
    return {
        "micro_batch": trial.micro_batch,
        "grad_accum": trial.grad_accum,
        "effective_batch": trial.effective_batch,
        "samples_per_second": trial.samples_per_second,
        "step_seconds": trial.step_seconds,
        "peak_bytes": trial.peak_bytes,
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "kind": verdict.kind,
        "because": verdict.because,
        "epsilon": verdict.epsilon,
        "floor": verdict.floor,
        "samples_equal": verdict.samples_equal,
    }
