"""What turning a knob could save at the most, by what the run has shown (Amdahl). Too little is not tried."""

from __future__ import annotations

import sys

from upshift.knobs.knob import Knob
from upshift.search.trial import CONVOLUTION, EXCHANGE, PADDING, Trial

LEAST = 0.03
"""Share of a step below which a knob cannot pay."""
_MODEL = ("forward", "loss", "backward")


def bound(knob: Knob, value: object, trial: Trial) -> float:
    """Share of a step that could be gone; 1 where nothing is known about it."""
    on_gpu = trial.device == "cuda"
    shares = {
        "workers": lambda: trial.data_share,
        "persistent_workers": lambda: trial.data_share if trial.workers else 0.0,
        "prefetch_factor": lambda: trial.data_share if trial.workers else 0.0,
        "ddp_bucket": lambda: _part(trial, "backward") if trial.world_size > 1 else 0.0,
        "channels_last": lambda: trial.shares.get(CONVOLUTION, 0.0),
        "no_sync": lambda: trial.shares.get(EXCHANGE, 0.0),
        "length_groups": lambda: trial.shares.get(PADDING, 0.0),
        "pin_memory": lambda: _part(trial, "host_to_device") if on_gpu else 0.0,
        # Turning it on saves memory, not time; turned off, a forward less of about three.
        "checkpointing": lambda: _part(trial, *_MODEL) / 2 if value is True else 0.0,
        "fused_optimizer": lambda: _part(trial, "optimizer"),
        "compile": lambda: _part(trial, *_MODEL, "optimizer"),
        "attention": lambda: _part(trial, *_MODEL),
        "precision": lambda: _part(trial, *_MODEL),
        "autocast": lambda: _part(trial, *_MODEL),
        # On a CPU it takes half a minute and seldom pays; a program with a switch for it is another matter.
        "compiled": lambda: _part(trial, *_MODEL, "optimizer") if on_gpu else 0.0,
        "tf32": lambda: _part(trial, *_MODEL) if on_gpu else 0.0,
        "allocator": lambda: 1.0 if not on_gpu and sys.platform == "linux" else 0.0,
    }
    return shares[knob.name]() if knob.name in shares else 1.0


def _part(trial: Trial, *phases: str) -> float:
    known = [trial.shares[name] for name in phases if name in trial.shares]
    return sum(known) if known else 1.0
