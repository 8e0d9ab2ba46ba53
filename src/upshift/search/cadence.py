"""Evaluating, saving and logging less often, where they eat the run: the same training with less beside it."""

from __future__ import annotations

import math

from upshift.knobs.counted import EVAL_EVERY, LOG_EVERY, SAVE_EVERY
from upshift.knobs.discover import Seen
from upshift.search.bench import Bench, Standing
from upshift.search.counting import first_count
from upshift.search.others import Option, tried

_EATS = 0.05
_MOST = 0.035
"""Share of the run that is left to each of them (CheckFreq's figure for checkpoints)."""


def turn(bench: Bench, best: Standing, seen: Seen) -> Standing:
    """Each as seldom as it takes to cost next to nothing."""
    for knob, share in (
        (EVAL_EVERY, best.trial.beside.get("evaluation", 0.0)),
        (SAVE_EVERY, best.trial.beside.get("saving", 0.0)),
        (LOG_EVERY, best.trial.shares.get("logging", 0.0)),
    ):
        if share < _EATS or not bench.request.wants(knob.name) or not bench.time_for():
            continue
        for count in first_count(knob, best.change, seen, least=1):
            seldom = count.value * math.ceil(share / (1 - share) / _MOST)
            option = Option(knob=knob, binding=count.binding, now=count.value, values=(seldom,))
            best = tried(bench, best, option, seldom)
    return best
