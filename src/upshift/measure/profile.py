"""Outcome → Profile: the record behind `upshift profile`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from upshift.eventlog import ProcessLog
from upshift.inject.upshift_agent.events import CHECKPOINT, DATA, FORWARD, H2D, OPTIMIZER, OTHER, PHASES
from upshift.measure.batch import Batch, observe
from upshift.measure.iterations import Iteration, iterations
from upshift.measure.modules import Modules, modules
from upshift.measure.places import Place, Places, places
from upshift.measure.steady import Interval, interval, warmup
from upshift.resources import Resources
from upshift.session import Outcome

FEWEST_STEPS = 2
_MARK_SECONDS = 4e-6
"""What one mark of the agent costs in cold caches, seconds: from benchmarks/overhead.py."""


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One part of a step."""

    name: str
    seconds: float | None
    """Mean seconds a step; None where it was not measured."""
    share: float | None
    places: tuple[Place, ...]
    note: str | None = None
    """Why it was not measured, or what is special."""


@dataclass(frozen=True, kw_only=True)
class RunPhases:
    """What a run spends outside its steps, as far as it was seen."""

    startup_seconds: float
    """From the command's start to the first backward or optimizer step."""
    evaluation_seconds: float
    evaluations: int
    checkpoint_seconds: float
    checkpoints: int
    watched_seconds: float
    """From the first to the last whole iteration; the base of the two shares."""


@dataclass(frozen=True, kw_only=True)
class AgentCost:
    """What looking cost."""

    overhead_share: float | None
    dropped: int
    probe_failures: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Where a step's time goes."""

    command: str
    cwd: Path
    device: str | None
    torch: str
    world_size: int
    observed: int
    """Iterations seen."""
    used: int
    warmup: int
    skipped: int
    """Steps a GradScaler skipped, among those used."""
    step: Interval
    step_mean: float
    batch: Batch
    samples_per_second: float | None
    tokens_per_second: float | None
    phases: tuple[Phase, ...]
    modules: Modules | None
    """Time by module; None where no module was looked at."""
    run: RunPhases
    optimizers: tuple[str, ...]
    resources: Resources
    agent: AgentCost
    isolation: str
    isolation_note: str | None
    ended_by: str


def training(processes: tuple[ProcessLog, ...]) -> ProcessLog | None:
    """The process that speaks for the run: rank 0, or the one that made most steps."""
    active = [p for p in processes if p.active]
    return min(active, key=lambda p: (p.rank, -len(p.steps))) if active else None


def steady(log: ProcessLog) -> tuple[tuple[Iteration, ...], int]:
    """(whole iterations, how many of them are warm-up)."""
    whole = iterations(log)
    return whole, warmup([i.seconds for i in whole])


def measure(outcome: Outcome) -> Profile | None:
    """The profile, or None if there were too few whole iterations."""
    log = training(outcome.processes)
    if log is None or log.active is None:
        return None
    whole, dropped = steady(log)
    used = whole[dropped:]
    if len(used) < FEWEST_STEPS:
        return None
    part_of_step = _trains_with_nograd(used)
    batch = observe(used, whole)
    where = places(log.samples, log.steps[0]["end"], outcome.command.cwd)
    phases = _phases(used, where, part_of_step)
    step_mean = sum(p.seconds for p in phases if p.seconds is not None)
    world = int(log.active["world_size"])
    return Profile(
        command=str(outcome.command),
        cwd=outcome.command.cwd,
        device=used[-1].device,
        torch=log.torch or "unknown",
        world_size=world,
        observed=len(whole),
        used=len(used),
        warmup=dropped,
        skipped=sum(i.skipped for i in used),
        step=interval([_seconds(i, part_of_step) for i in used]),
        step_mean=step_mean,
        batch=batch,
        samples_per_second=batch.samples / step_mean * world if batch.samples else None,
        tokens_per_second=batch.tokens / step_mean * world if batch.tokens else None,
        phases=phases,
        modules=modules(
            log.modules,
            forward=_phase_seconds(phases, "forward"),
            backward=_phase_seconds(phases, "backward"),
            micro_steps=sum(len(i.micro) for i in used) / len(used),
        ),
        run=_run_phases(outcome, log, whole, part_of_step),
        optimizers=tuple(dict.fromkeys(o for i in used for o in i.optimizers)),
        resources=outcome.resources,
        agent=_agent_cost(outcome),
        isolation=outcome.isolation,
        isolation_note=outcome.isolation_note,
        ended_by=outcome.ended_by,
    )


def _phase_seconds(phases: tuple[Phase, ...], name: str) -> float:
    return next((p.seconds or 0.0 for p in phases if p.name == name), 0.0)


def _trains_with_nograd(used: tuple[Iteration, ...]) -> bool:
    """A teacher, a target network, a rollout; and not an evaluation that forgot to call eval()."""
    windows = [i for i in used if i.nograd is not None]
    return 2 * len(windows) > len(used) or not any(i.evaluates for i in windows)


def _seconds(iteration: Iteration, with_nograd: bool) -> float:
    extra = sum(iteration.nograd) if with_nograd and iteration.nograd else 0.0
    return iteration.seconds + extra


def _phases(used: tuple[Iteration, ...], where: Places, with_nograd: bool) -> tuple[Phase, ...]:
    """Mean seconds by phase, biggest first; what was not measured last."""
    sums = [mean(i.phases[p] for i in used) for p in range(len(PHASES))]
    if with_nograd:  # a teacher, a target network, a rollout: part of every step
        for p in range(len(PHASES)):
            sums[p] += sum(i.nograd[p] for i in used if i.nograd) / len(used)
    waited = sums[OTHER] * where.waiting_share
    sums[OTHER] -= waited
    sums[DATA] += waited
    total = sum(sums) - sums[CHECKPOINT]
    on_host = used[-1].device in (None, "cpu")
    manual = used[-1].optimizers == ("manual",)
    phases = []
    for index, name in enumerate(PHASES):
        if index == CHECKPOINT:
            continue
        note = None
        if index == H2D and on_host:
            note = "no device to copy to"
        elif index == OPTIMIZER and manual and not sums[index]:
            note = "no optimizer object: the update is part of other"
        elif index == FORWARD and not sums[index]:
            note = "no module was called: see other"
        seen = where.by_phase.get(name, ())
        if index == DATA and waited > sums[DATA] / 2:
            seen = where.waiting
        phases.append(
            Phase(
                name=name,
                seconds=None if note else sums[index],
                share=None if note else sums[index] / total,
                places=seen,
                note=note,
            )
        )
    return tuple(sorted(phases, key=lambda p: -1.0 if p.seconds is None else p.seconds, reverse=True))


def _run_phases(
    outcome: Outcome, log: ProcessLog, whole: tuple[Iteration, ...], part_of_step: bool
) -> RunPhases:
    assert log.active is not None
    evaluations = [i.evaluation for i in whole if i.evaluation]
    if not part_of_step:
        evaluations += [sum(i.nograd) for i in whole if i.nograd]
    saves = [i.phases[CHECKPOINT] for i in whole if i.phases[CHECKPOINT]]
    return RunPhases(
        startup_seconds=log.active["mono"] - outcome.started,
        evaluation_seconds=sum(evaluations),
        evaluations=len(evaluations),
        checkpoint_seconds=sum(saves),
        checkpoints=len(saves),
        watched_seconds=whole[-1].end - log.steps[0]["end"],
    )


def _agent_cost(outcome: Outcome) -> AgentCost:
    shares = []
    for process in outcome.processes:
        cost = process.cost
        if process.active and cost and cost["elapsed"] > 0:
            spent = cost["sending"] + cost["sampler"] + cost["marks"] * _MARK_SECONDS
            shares.append(spent / cost["elapsed"])
    return AgentCost(
        overhead_share=max(shares) if shares else None,
        dropped=sum(p.dropped + p.torn for p in outcome.processes),
        probe_failures=tuple(
            f"{f['probe']}: {f['error']}" for p in outcome.processes for f in p.probe_failures
        ),
    )
