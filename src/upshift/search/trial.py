"""One short run of a setting → `Trial`: how fast, how much memory, or why not. Out of memory is an answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from upshift.knobs.change import Change
from upshift.knobs.counted import EVAL_EVERY, SAVE_EVERY
from upshift.measure.profile import Profile, measure, steady, training
from upshift.outcomes import failed
from upshift.session import Outcome

OK, OOM, CRASH, TIMEOUT, NOTHING = "ok", "oom", "crash", "timeout", "nothing"
_OUT_OF_MEMORY = re.compile(
    r"out of memory|can't allocate memory|cannot allocate memory|MemoryError|DefaultCPUAllocator",
    re.IGNORECASE,
)


CONVOLUTION, EXCHANGE, PADDING = "convolution", "exchange", "padding"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What one setting showed."""

    settings: Mapping[str, Any]
    outcome: str
    samples_per_second: float | None = None
    step_seconds: float | None = None
    noise: float | None = None
    """Half width of the interval of the step time, as a share."""
    peak_bytes: int | None = None
    micro_batch: int | None = None
    grad_accum: int | None = None
    world_size: int = 1
    device: str | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    """Of a step, by phase; `convolution`; `exchange`, which holds the avoidable exchanges of gradients between ranks;
    `padding`, of which other micro-batches of a step may have less. What was not measured is not in it."""
    beside: Mapping[str, float] = field(default_factory=dict)
    """Of the run's time: `evaluation`, `saving`."""
    workers: int | None = None
    """Of the training's DataLoader."""
    threads: int | None = None
    """Of one process, as torch has them when it trains."""
    length_median: int | None = None
    length_max: int | None = None
    """Tokens of the longest sample of a batch, over the batches."""
    settled_seconds: float | None = None
    """From the start until the steps were steady: loading, compiling, warming up."""
    neighbours: tuple[str, ...] = ()
    """Other programs that took cores which the run would have used."""
    seconds: float = 0.0
    why: str = ""

    @property
    def ok(self) -> bool:
        """It ran and was measured."""
        return self.outcome == OK and bool(self.samples_per_second)

    @property
    def data_share(self) -> float:
        """Of a step: waiting for data."""
        return self.shares.get("data_wait", 0.0)

    @property
    def run_samples_per_second(self) -> float:
        """With what evaluations and saves take beside the steps."""
        return (self.samples_per_second or 0.0) * (1 - sum(self.beside.values()))

    @property
    def effective_batch(self) -> int | None:
        """Samples of an optimizer step."""
        if self.micro_batch is None or self.grad_accum is None:
            return None
        return self.micro_batch * self.grad_accum * self.world_size

    def document(self) -> dict[str, Any]:
        """For the journal and the JSON."""
        return asdict(self)


def rate(trial: Trial, values: Mapping[str, Any]) -> float:
    """Samples a second: of the steps, or of the run where something beside the steps was turned."""
    of_run = EVAL_EVERY.name in values or SAVE_EVERY.name in values
    return trial.run_samples_per_second if of_run else trial.samples_per_second or 0.0


Run = Callable[[Change, Mapping[str, Any]], Trial]


def read(outcome: Outcome, settings: Mapping[str, Any], seconds: float) -> Trial:
    """What a launch showed."""
    if outcome.ended_by == "interrupt":
        raise KeyboardInterrupt
    said = (outcome.stderr + outcome.stdout)[-20000:]
    last = next((line for line in reversed(outcome.stderr.strip().splitlines()) if line.strip()), "")[:200]
    if failed(outcome):
        memory = bool(_OUT_OF_MEMORY.search(said)) or outcome.exit_code == -9
        return Trial(settings=settings, outcome=OOM if memory else CRASH, seconds=seconds, why=last)
    void = next((f for p in outcome.processes for f in p.lever_failures), None)
    if void is not None:
        return Trial(
            settings=settings, outcome=CRASH, seconds=seconds, why=f"{void['lever']}: {void['error']}"
        )
    found = measure(outcome)
    if found is None:
        late = outcome.ended_by in ("timeout", "no_step")
        return Trial(settings=settings, outcome=TIMEOUT if late else NOTHING, seconds=seconds, why=last)
    return Trial(
        settings=settings,
        outcome=OK,
        samples_per_second=found.samples_per_second,
        step_seconds=found.step_mean,
        noise=found.step.half_width,
        peak_bytes=found.resources.peak_bytes,
        micro_batch=found.batch.micro_batch,
        grad_accum=found.batch.grad_accum,
        world_size=found.world_size,
        device=found.device,
        shares=_phases(found) | _convolution(found) | _exchange(found, outcome) | _padding(found),
        beside=_beside(found),
        workers=_workers(outcome),
        threads=_threads(outcome),
        length_median=found.batch.length_median,
        length_max=found.batch.length_max,
        settled_seconds=_settled(outcome),
        neighbours=found.resources.other_processes if found.resources.crowded else (),
        seconds=seconds,
    )


def _phases(found: Profile) -> dict[str, float]:
    return {p.name: p.share for p in found.phases if p.share is not None}


def _exchange(found: Profile, outcome: Outcome) -> dict[str, float]:
    """The backwards of all micro-batches but the last, where each exchanges gradients."""
    log = training(outcome.processes)
    seen = log.modules if log is not None else None
    accumulation = found.batch.grad_accum or 1
    if accumulation < 2 or not seen or not seen["synchronised"] or seen["synchronised"] < seen["distributed"]:
        return {}
    return {EXCHANGE: _phases(found).get("backward", 0.0) * (accumulation - 1) / accumulation}


def _padding(found: Profile) -> dict[str, float]:
    """The model's work on padding, where a step has several micro-batches."""
    if not found.batch.padding_share or (found.batch.grad_accum or 1) < 2:
        return {}
    model = sum(_phases(found).get(name, 0.0) for name in ("forward", "loss", "backward"))
    return {PADDING: found.batch.padding_share * model}


def _convolution(found: Profile) -> dict[str, float]:
    """Share of a step in convolutions of images."""
    if found.modules is None or not found.step_mean:
        return {}
    modules = [m for root in found.modules.roots for m in root.walk() if m.kind.endswith("Conv2d")]
    return {CONVOLUTION: sum(m.seconds for m in modules) / found.step_mean} if modules else {}


def _beside(found: Profile) -> dict[str, float]:
    """What an evaluation and a save cost, spread over the steps between them."""
    run = found.run
    each = {"evaluation": run.evaluation_seconds, "saving": run.checkpoint_seconds}
    whole = found.step_mean * found.observed + sum(each.values())
    return {name: seconds / whole for name, seconds in each.items() if seconds}


def _workers(outcome: Outcome) -> int | None:
    log = training(outcome.processes)
    made = [e["workers"] for e in log.loaders if not e["evaluation"]] if log else []
    return int(made[-1]) if made else None


def _threads(outcome: Outcome) -> int | None:
    log = training(outcome.processes)
    return int(log.facts["threads"]) if log is not None and log.facts is not None else None


def _settled(outcome: Outcome) -> float | None:
    log = training(outcome.processes)
    if log is None:
        return None
    whole, dropped = steady(log)
    return (whole[dropped - 1].end if dropped else log.steps[0]["end"]) - outcome.started
