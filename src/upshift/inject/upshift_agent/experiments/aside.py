"""Steps with and without saving, with and without logging, in turn.

The time inside the call is not all of it: caches are cold afterwards, pages are written out while the run goes on.
"""

from __future__ import annotations

import time

from ..events import CHECKPOINT, LOGGING

_BLOCKS = 8
_PHASES = {"saving": CHECKPOINT, "logging": LOGGING}


def run(experiments):
    """`plan["aside"]`: {"saving": steps of a block, …}. Calls of that kind return at once in every other block."""
    recorder = experiments.recorder
    found = {}
    for name, steps in experiments.plan["aside"].items():
        times: dict = {True: [], False: []}
        for block in range(_BLOCKS):
            skipping = block % 2 == 0
            recorder.skipped = (_PHASES[name],) if skipping else ()
            begun = time.perf_counter()
            for _ in range(steps):
                yield
            times[skipping].append((time.perf_counter() - begun) / steps)
        recorder.skipped = ()
        # The first block of either kind still carries what came before it.
        found[name] = {"with": times[False][1:], "without": times[True][1:]}
    return found
