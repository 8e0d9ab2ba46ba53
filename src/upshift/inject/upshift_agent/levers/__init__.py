"""Levers: what upshift changes inside a run, because it was told to. Each fails closed: the trial is void.

`session["levers"]` names them: {"seed": 7, "silence": true, "permute": 16, "double": true, "longest": true,
"channels_last": true, "no_sync": true, "length_groups": true, "autocast": true, "compiled": true}.
They go in before the probes, so that the probes see the run as it then is.
"""

from __future__ import annotations

import sys

from . import (
    autocast,
    channels_last,
    compiled,
    double,
    length_groups,
    longest,
    no_sync,
    permute,
    seeds,
    silence,
)

_LEVERS = {
    "seed": seeds,
    "silence": silence,
    "permute": permute,
    "double": double,
    "longest": longest,
    "channels_last": channels_last,
    "no_sync": no_sync,
    "length_groups": length_groups,
    "autocast": autocast,
    "compiled": compiled,
}


def before_torch(wanted: dict) -> None:
    """What must be in place before the program's first line."""
    if wanted.get("seed") is not None:
        seeds.before_torch(wanted["seed"])


def install(torch, recorder, wanted: dict) -> None:
    """Pull the levers asked for; one that cannot be pulled voids the trial. Without a recorder it is the real run."""
    for name, value in wanted.items():
        if name not in _LEVERS or value in (None, False):
            continue
        try:
            _LEVERS[name].install(torch, recorder, value)
        except Exception as error:
            if recorder is None:
                sys.stderr.write("upshift: running without %s: %r\n" % (name, error))
                continue
            recorder.emitter.emit("lever_failed", lever=name, error=repr(error))
            recorder.emitter.flush()
