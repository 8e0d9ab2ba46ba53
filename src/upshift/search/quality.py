"""The aggressive plan: settings that make it another training, with what they bring and what they cost, measured.

Short real runs with the same seed tell how fast the loss falls. None of these settings is taken: the table is for the
user to choose from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from upshift.errors import UpshiftError
from upshift.knobs.binding import Binding
from upshift.knobs.discover import Seen, candidates
from upshift.knobs.knob import Knob
from upshift.knobs.quality import EPOCHS, EVAL_PART, QUALITY_KNOBS, SEQUENCE
from upshift.search.bench import Bench, Learned, Standing
from upshift.search.choice import Choice, loss_at
from upshift.search.trial import Trial

_SECONDS = 25.0
"""Of training that is looked at, at the speed of the best so far."""
_FEWEST, _MOST = 20, 400
"""Steps of that."""
_EATS = 0.05
"""Share of the run below which evaluations are left alone."""
_PLACES = 2
"""A knob may be set at several places: lengths of sources and of targets."""


def table(bench: Bench, best: Standing, seen: Seen) -> tuple[Choice, ...]:
    """The training as it is, and what else was tried; empty where nothing could be."""
    base = best.trial
    if not base.step_seconds or not bench.time_for(3):
        return ()
    steps = max(_FEWEST, min(_MOST, round(_SECONDS / base.step_seconds)))
    options = list(_options(bench, best, seen))
    if not options:
        bench.reject(
            "quality", "no place that sets lengths, the model's width, the learning rate or epochs was found"
        )
        return ()
    bench.tell(f"how fast the loss falls as it is: {steps} steps")
    learned = bench.ways.learn(best.change, steps)
    first = loss_at(learned.losses, steps)
    if first is None:
        bench.reject("quality", "no loss was seen in the run as it is")
        return ()
    rows = [
        Choice(
            knob=None,
            binding=None,
            before=None,
            after=None,
            time=1.0,
            equal_steps=first,
            equal_time=first,
            validation=learned.validation,
        )
    ]
    dead: set[Binding] = set()
    for turn in options:
        if not bench.time_for(3):
            break
        if turn[1] in dead:
            continue
        row = _row(bench, best, turn, steps, learned)
        if row is None:
            dead.add(turn[1])
        else:
            rows.append(row)
    return tuple(rows)


Turn = tuple[Knob, Binding, object, object]
"""(knob, where, before, after)"""


def _options(bench: Bench, best: Standing, seen: Seen) -> Iterator[Turn]:
    for knob in QUALITY_KNOBS:
        if not bench.request.wants(knob.name):
            continue
        if knob is EVAL_PART and best.trial.beside.get("evaluation", 0.0) < _EATS:
            continue
        for candidate in candidates(knob, None, best.change, seen)[:_PLACES]:
            for value in _values(knob, candidate.value, best.trial):
                yield knob, candidate.binding, candidate.value, value


def _values(knob: Knob, now: object, trial: Trial) -> list[object]:
    if isinstance(now, bool):
        return []
    wanted = list(knob.values(now))
    if knob is SEQUENCE and isinstance(now, int):
        # What the data really has: the longest cuts nothing, the usual cuts half of the samples.
        lengths = [8 * math.ceil(n / 8) for n in (trial.length_max, trial.length_median) if n]
        shorter = {int(str(n)) for n in (*wanted, *lengths)}
        wanted = [n for n in sorted(shorter, reverse=True) if 0 < n < now]
    return wanted[:3]


def _row(bench: Bench, best: Standing, turn: Turn, steps: int, base: Learned) -> Choice | None:
    """None where it cannot be set, or setting it changes nothing."""
    knob, binding, before, after = turn
    what = f"{binding} {before} → {after}"
    try:
        changed = binding.apply(best.change, after)
    except UpshiftError as error:
        bench.reject(what, error.message)
        return None
    if knob is EPOCHS:
        return _fewer_epochs(turn, steps, base)
    trial = bench.attempt(changed, {**best.values, knob.name: after})
    if not trial.ok or not trial.step_seconds:
        bench.reject(what, trial.why or trial.outcome)
        return None
    if knob is EVAL_PART:
        return _part_evaluated(bench, best, trial, turn, base)
    ratio = trial.step_seconds / (best.trial.step_seconds or 1.0)
    in_time = round(steps / ratio)
    learned = bench.ways.learn(changed, max(steps, min(in_time, 3 * steps)))
    if learned.losses[: len(base.losses)] == base.losses[: len(learned.losses)]:
        bench.reject(str(binding), "set, and the loss of every step stayed what it was")
        return None
    return _choice(
        turn,
        time=ratio,
        equal_steps=loss_at(learned.losses, steps),
        equal_time=loss_at(learned.losses, in_time),
        validation=learned.validation,
    )


def _choice(turn: Turn, **found: Any) -> Choice:
    knob, binding, before, after = turn
    return Choice(knob=knob.name, binding=binding, before=before, after=after, **found)


def _fewer_epochs(turn: Turn, steps: int, base: Learned) -> Choice | None:
    """Stopped that much earlier, as if the stretch that was measured were the whole training."""
    _, _, before, after = turn
    part = int(str(after)) / int(str(before))
    return _choice(
        turn,
        time=part,
        equal_steps=loss_at(base.losses, round(steps * part)),
        equal_time=None,
        validation=None,
        extrapolated=True,
    )


def _part_evaluated(bench: Bench, best: Standing, trial: Trial, turn: Turn, base: Learned) -> Choice | None:
    """The training stays what it is, so does its loss; only the validation is over less."""
    if trial.beside.get("evaluation", 0.0) > 0.9 * best.trial.beside["evaluation"]:
        bench.reject(str(turn[1]), "set, and evaluations took as long as before")
        return None
    loss = loss_at(base.losses, len(base.losses))
    return _choice(
        turn,
        time=best.trial.run_samples_per_second / trial.run_samples_per_second,
        equal_steps=loss,
        equal_time=loss,
        validation=None,
    )
