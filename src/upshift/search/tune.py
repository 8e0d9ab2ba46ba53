"""The search: look, bind, try, verify, confirm. It is given functions that run things and knows no processes."""

from __future__ import annotations

from contextlib import closing

from upshift.errors import NothingMeasured
from upshift.knobs import allocators
from upshift.knobs.catalogue import FEEDING, KEPT_MEMORY, OTHERS
from upshift.plan import Plan
from upshift.search import cadence, counting, feeding, micro_batch, others, quality
from upshift.search.bench import AGGRESSIVE, Bench, Request, Standing, Turned, Ways
from upshift.search.confirm import Speedup, confirm
from upshift.search.trial import Trial
from upshift.verify.verdict import Verdict

_HEAT_SECONDS = 3.0
_HEATS = 4
"""That fit into what is left of the budget, where precision is asked for; starting takes a part of it."""

_NAMED = 3

_OTHER_ALLOCATORS = (
    "allocating memory is dear in this run, and tcmalloc, which is often quicker still, is not installed here "
    "(Debian and Ubuntu: libtcmalloc-minimal4; conda: gperftools)"
)


def tune(request: Request, ways: Ways) -> Plan:
    """From the run as it is to a plan. Raises the error that says why there is none."""
    bench = Bench(request, ways)
    bench.tell("as it is")
    baseline, seen = bench.look(request.now)
    if not baseline.ok:
        raise NothingMeasured(f"the run as it is could not be measured: {baseline.outcome} {baseline.why}")
    baseline = bench.undisturbed(baseline)
    bench.tell(f"as it is: {baseline.samples_per_second:.4g} samples/s, {_batch(baseline)}")
    best = Standing(trial=baseline, change=request.now)
    if micro_batch.waits_for_data(baseline):
        best = feeding.turn(bench, best, seen)
        best = others.turn(bench, best, seen, OTHERS)
    else:
        # Larger batches fault in more memory: where it is kept, they may pay that did not. And starts differ less.
        best = others.turn(bench, best, seen, (KEPT_MEMORY,))
        best = micro_batch.turn(bench, best, seen)
        best = others.turn(bench, best, seen, (*FEEDING, *OTHERS))
    if best.values.get(KEPT_MEMORY.name) == allocators.KEEPING and not allocators.installed():
        bench.note(_OTHER_ALLOCATORS)
    best = cadence.turn(bench, best, seen)
    _tell_of_neighbours(bench)
    length = counting.length(bench, baseline, best, seen) if best.settings else None
    best, speedup, verdict = _confirmed(bench, baseline, best)
    return Plan(
        now=request.now,
        change=best.change,
        settings=best.settings,
        baseline=baseline,
        best=best.trial,
        speedup=speedup,
        verdict=verdict,
        beside=tuple(bench.beside_steps) if best.settings else (),
        quality=quality.table(bench, best, seen) if request.plan == AGGRESSIVE else (),
        trials=tuple(bench.trials),
        rejected=tuple(bench.rejected),
        tuning_seconds=bench.seconds,
        notes=tuple(bench.notes),
        length=length,
    )


def _tell_of_neighbours(bench: Bench) -> None:
    """Whoever else worked on this machine: what is said of speed is of a machine that was shared."""
    crowded = [trial for trial in bench.trials if trial.neighbours]
    if crowded:
        named = dict.fromkeys(name for trial in crowded for name in trial.neighbours)
        bench.note(
            f"other programs took cores during {len(crowded)} of {len(bench.trials)} trials "
            f"({', '.join(list(named)[:_NAMED])}): on a machine of its own the run may gain something else. "
            "To measure again, stop them and remove the folder .upshift"
        )


def _confirmed(
    bench: Bench, baseline: Trial, best: Standing
) -> tuple[Standing, Speedup | None, Verdict | None]:
    """The best, if the whole of it is the same training and faster in pairs; else the run as it is."""
    if not best.settings:
        return best, None, None
    speedup: Speedup | None = None
    verdict = bench.ask(best.change, best.values)
    if verdict is None or not bench.accepts(verdict):
        why = bench.refusal(verdict)
    else:
        bench.tell("confirming side by side")
        before: Turned = (bench.request.now, {})
        after: Turned = (best.change, best.values)
        with closing(bench.ways.versus(before, after, "confirm", _heat_seconds(bench))) as heats:
            speedup = confirm(
                heats, bench.request.precision, lambda: bench.seconds < bench.request.budget_seconds
            )
        if speedup is not None and (speedup.claimed or _gains_beside(best, speedup)):
            return best, speedup, verdict
        held = f"{speedup.low:.2f} to {speedup.high:.2f}" if speedup else "the runs did not go on"
        why = f"not confirmed side by side ({held})"
    for setting in best.settings:
        bench.reject(f"{setting.knob} → {setting.after}", why)
    return Standing(trial=baseline, change=bench.request.now), speedup, verdict


def _gains_beside(best: Standing, speedup: Speedup) -> bool:
    """Was nothing turned but what stands beside the steps, which are as fast as they were?"""
    return set(best.values) <= {knob.name for knob in cadence.UNSEEN.values()} and speedup.high >= 1.0


def _heat_seconds(bench: Bench) -> float:
    """Of racing, each start. For precision it takes many steps, for they differ: all the time there is."""
    if bench.request.precision is None:
        return _HEAT_SECONDS
    return max(_HEAT_SECONDS, (bench.request.budget_seconds - bench.seconds) / _HEATS)


def _batch(trial: Trial) -> str:
    return f"micro-batch {trial.micro_batch} × {trial.grad_accum}" + (
        f" × {trial.world_size} ranks" if trial.world_size > 1 else ""
    )
