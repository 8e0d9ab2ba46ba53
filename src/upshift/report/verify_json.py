"""The document `upshift.verify/1`."""

from __future__ import annotations

import math
from typing import Any

from upshift.verify.compare import Difference
from upshift.verify.trace import Step, Trace
from upshift.verify.verify import Answer
from upshift.verify.weights import label_counts

SCHEMA = "upshift.verify/1"


def document(answer: Answer) -> dict[str, Any]:
    """Everything the verdict rests on."""
    verdict = answer.verdict
    floors = {d.step: d.epsilon for d in verdict.floors}
    return {
        "schema": SCHEMA,
        "command": list(answer.question.now.command.argv),
        "other_command": list(answer.other.command.argv),
        "settings": {
            knob: {"value": value, "binding": str(answer.bindings[knob]) if knob in answer.bindings else None}
            for knob, value in answer.question.settings.items()
        },
        "verdict": {
            "kind": verdict.kind,
            "same": verdict.same,
            "because": verdict.because,
            "cause": verdict.cause,
            "evidence": list(verdict.evidence),
            "rho": _finite(verdict.rho),
            "epsilon": _finite(verdict.epsilon),
            "epsilon_float64": _finite(verdict.epsilon64),
            "floor": _finite(verdict.floor),
            "samples_equal": verdict.samples_equal,
        },
        "today": list(verdict.today),
        "a": _side(answer.a),
        "b": _side(answer.b),
        "steps": [_step(d, answer, floors.get(d.step)) for d in verdict.steps],
        "runs": answer.runs,
    }


def _side(trace: Trace) -> dict[str, Any]:
    return {
        "micro_batch": trace.micro_batch,
        "grad_accum": trace.grad_accum,
        "world_size": trace.world_size,
        "steps": len(trace.steps),
        "batch_norm_layers": trace.normed,
        "random_data": sorted(trace.draws),
    }


def _step(d: Difference, answer: Answer, floor: float | None) -> dict[str, Any]:
    return {
        "step": d.step,
        "rho": _finite(d.rho),
        "epsilon": _finite(d.epsilon),
        "floor": _finite(floor),
        "update_epsilon": _finite(d.update_epsilon),
        "samples_equal": d.samples,
        "rates_equal": d.rates_equal,
        "identical": d.identical,
        "a": _made_of(answer.a.steps[d.step]),
        "b": _made_of(answer.b.steps[d.step]),
    }


def _made_of(step: Step) -> dict[str, Any]:
    counts = label_counts(step)
    return {
        "loss": _finite(step.loss),
        "norm": _finite(step.norm),
        "norm_after_clipping": _finite(step.norm_after),
        "learning_rates": list(step.rates),
        "samples": list(step.sizes),
        "labels": list(counts) if counts is not None else None,
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
