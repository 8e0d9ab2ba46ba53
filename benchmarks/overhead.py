"""What looking costs: the agent, torch.profiler and py-spy on steps of 5, 20 and 100 ms. `make bench`.

Whole runs cannot show a percent on a busy machine: the same run twice differs by more. So one process trains, and
every few steps it changes: without, with, and once more without the instrument, in an order that is drawn. Steps are
timed one by one in CPU time of the whole process, and by the wall less the time the thread waited for a core
(/proc/thread-self/schedstat). The machine's speed drifts, so each step is taken relative to the median of the dozen
steps around it; the figure compares the medians with and without, with a 95 % interval from resampling those dozens.
The steps "once more without" against those "without" go the same way (A/A): the floor below which nothing is known.

What the agent does by the clock and not by the step (its sampler, its sending) does not show in a median. It is timed
by itself and added; the column `periodic` shows it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from upshift.inject.upshift_agent import recorder as recording  # noqa: E402
from upshift.inject.upshift_agent.emitter import Emitter  # noqa: E402
from upshift.inject.upshift_agent.probes import install  # noqa: E402
from upshift.inject.upshift_agent.sampler import Sampler  # noqa: E402

RESULTS = Path(__file__).resolve().parent / "results" / "overhead.json"
BLOCK = 8
FEW = 2
TARGETS_MS = {5: 1.0, 20: 10.0, 100: 2.0}
"""Length of a step, and how long to measure: the promise is about 20 ms, and a tenth of a percent takes its time."""


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.act, self.down = nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.drop(self.down(self.act(self.up(self.norm(x)))))


class Trainer:
    """An ordinary loop over a DataLoader: 86 modules, AdamW."""

    def __init__(self, batch: int, width: int = 64, depth: int = 14) -> None:
        self.model = nn.Sequential(*(Layer(width) for _ in range(depth)), nn.Linear(width, 10))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        rows = max(64, 4 * batch)
        data = TensorDataset(torch.randn(rows, width), torch.randint(0, 10, (rows,)))
        self.loader = DataLoader(data, batch_size=batch, collate_fn=self._collate)
        self.data = data
        self._batches = self._endless()

    def _collate(self, samples: list) -> tuple[torch.Tensor, torch.Tensor]:
        first = len(samples)  # the data is in memory already: collating is not what is measured
        return self.data.tensors[0][:first], self.data.tensors[1][:first]

    def _endless(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            yield from self.loader

    def step(self) -> None:
        x, y = next(self._batches)
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


class GatedSampler(Sampler):
    """The agent's sampler, looking only while the agent is on."""

    gate = False

    def _count(self, frame) -> None:
        if self.gate:
            super()._count(frame)


class Agent:
    """The agent's probes, switched on and off between steps."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="upshift-bench-")
        owners = _patched_owners()
        before = [dict(vars(owner)) for owner in owners]
        self.recorder = recording.Recorder(Emitter(self.folder))
        install(torch, self.recorder)
        from torch.optim import optimizer as optimizers

        self.hooks = [
            (hooks, dict(hooks))
            for hooks in (optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks)
        ]
        self.patches = [
            (owner, name, old[name], value)
            for owner, old in zip(owners, before, strict=True)
            for name, value in list(vars(owner).items())
            if name in old and old[name] is not value
        ]
        self.recorder.activate()
        self.off_since = time.perf_counter()
        self.sampler = GatedSampler(self.recorder, 0)
        self.recorder.sampler = self.sampler
        self.switch(on=False)

    def periodic_seconds(self) -> float:
        """Time of the sampler and of sending so far; the sampler ticks on while the agent is off."""
        return self.sampler.cpu_seconds / 3 + self.recorder.sending_seconds

    def switch(self, *, on: bool) -> None:
        """Put the probes in place or the originals back; either way costs the same."""
        for owner, name, original, patched in self.patches:
            setattr(owner, name, patched if on else original)
        for hooks, ours in self.hooks:
            hooks.clear()
            if on:
                hooks.update(ours)
        self.recorder.closed = not on
        now = time.perf_counter()
        if (
            on and not self.sampler.gate
        ):  # close looks and sending come by the clock: it stood still meanwhile
            self.recorder.detail_at += now - self.off_since
            self.recorder.send_at += now - self.off_since
            self.recorder._modules_at += now - self.off_since
            self.recorder.detail._hooks_at += now - self.off_since
        elif not on and self.sampler.gate:
            self.off_since = now
        self.sampler.gate = on


def _patched_owners() -> list:
    import builtins
    import logging

    loader = torch.utils.data.dataloader
    return [
        nn.Module,
        torch.autograd,
        loader._BaseDataLoaderIter,
        torch.optim.Optimizer,
        torch.amp.GradScaler,
        torch.nn.utils,
        torch,
        builtins,
        logging.Logger,
    ]


@contextlib.contextmanager
def torch_profiler() -> Iterator[None]:
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    profiler.start()
    try:
        yield
    finally:
        profiler.stop()


@contextlib.contextmanager
def py_spy() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        spy = subprocess.Popen(
            ["py-spy", "record", "--nonblocking", "--rate", "100", "--pid", str(os.getpid())]
            + ["--duration", "3600", "--format", "raw", "--output", f"{folder}/out"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(0.7)  # it reads the process's symbols first
        try:
            yield
        finally:
            spy.kill()
            spy.wait()


def waited() -> float:
    """Seconds this thread has waited for a core."""
    with open("/proc/thread-self/schedstat") as stream:
        return int(stream.read().split()[1]) / 1e9


@dataclass(frozen=True)
class Step:
    """One step by either clock, seconds."""

    wall: float
    cpu: float


def timed_step(trainer: Trainer) -> Step:
    wall, queue, cpu = time.perf_counter(), waited(), time.process_time()
    trainer.step()
    cpu = time.process_time() - cpu
    return Step(time.perf_counter() - wall - (waited() - queue), cpu)


@dataclass(frozen=True)
class Cycle:
    """A short stretch of one process: steps without the instrument, with it, and without it once more (A/A)."""

    without: list[Step]
    instrumented: list[Step]
    again: list[Step]

    @property
    def step_ms(self) -> float:
        """Median of all of them."""
        return 1000 * statistics.median(s.wall for s in (*self.without, *self.instrumented, *self.again))


def cycle(steps: int, block: Callable[[bool], contextlib.AbstractContextManager]) -> Cycle:
    """Two blocks of steps of each kind, in an order that is drawn: no kind may have a place of its own."""
    found: dict[str, list[Step]] = {name: [] for name in KINDS}
    for name in random.sample(2 * KINDS, k=2 * len(KINDS)):
        with block(name == "instrumented") as trainer:
            trainer.step()  # replacing methods empties the interpreter's caches: not what is measured
            found[name] += [timed_step(trainer) for _ in range(steps)]
    return Cycle(**found)


KINDS = ("without", "instrumented", "again")


def switched(trainer: Trainer, switch: Callable) -> Cycle:
    """An instrument that is switched between any two steps; switching costs the same either way."""

    @contextlib.contextmanager
    def block(on: bool) -> Iterator[Trainer]:
        switch(on=on)
        yield trainer

    found = cycle(FEW, block)
    switch(on=False)
    return found


def started(trainer: Trainer, instrument: Callable, cycles: int) -> list[Cycle]:
    """Longer blocks, for an instrument that takes long to start and stop."""

    @contextlib.contextmanager
    def block(on: bool) -> Iterator[Trainer]:
        with instrument() if on else contextlib.nullcontext():
            yield trainer

    return [cycle(BLOCK, block) for _ in range(cycles)]


def overhead(cycles: list[Cycle], which: str, clock: str) -> float:
    """How much longer a step is with the instrument: medians of steps relative to those around them."""
    reference = ("without",) if which == "again" else ("without", "again")
    relative: dict[str, list[float]] = {which: [], "reference": []}
    for each in cycles:
        times = {name: [getattr(step, clock) for step in getattr(each, name)] for name in KINDS}
        around = statistics.median(time for found in times.values() for time in found)
        relative[which] += [time / around for time in times[which]]
        relative["reference"] += [time / around for name in reference for time in times[name]]
    return statistics.median(relative[which]) / statistics.median(relative["reference"]) - 1


def summary(cycles: list[Cycle], which: str) -> dict[str, dict[str, float]]:
    """Overhead with its 95 % interval, by either clock."""
    result = {}
    for clock in ("wall", "cpu"):
        again = sorted(overhead(random.choices(cycles, k=len(cycles)), which, clock) for _ in range(400))
        result[clock] = {"overhead": overhead(cycles, which, clock), "low": again[10], "high": again[-10]}
    return result


def quick(trainer: Trainer) -> float:
    """Milliseconds of a step when nobody disturbs: the lower quarter of 24."""
    return sorted(timed_step(trainer).wall for _ in range(24))[6] * 1000


def sized(target_ms: float) -> Trainer:
    """A trainer whose step takes about `target_ms`: the batch is what is turned."""
    depth = 14 if target_ms > 10 else 4  # fewer modules: 86 of them take more than 5 ms by themselves here
    low, high = 2, 4096
    while True:  # by halving: the time of a step does not grow evenly with the batch
        batch = int((low * high) ** 0.5)
        trainer = Trainer(batch, depth=depth)
        took = statistics.median(quick(trainer) for _ in range(3))
        if near(took, target_ms, within=1.1) or high - low <= 1:
            return trainer
        low, high = (batch, high) if took < target_ms else (low, batch)


def near(took_ms: float, target_ms: float, within: float) -> bool:
    """Is that the step that was asked for?"""
    return target_ms / within <= took_ms <= target_ms * within


@dataclass(frozen=True)
class Watched:
    """The agent switched on and off on a step of the length that was asked for."""

    trainer: Trainer
    cycles: list[Cycle]
    step_ms: float
    periodic: float
    """Share of the time: what the agent does by the clock."""


def watched(agent: Agent, target_ms: float, seconds: float) -> Watched:
    """Cycles until enough of them had steps of that length: a machine that changes its speed changes the step.

    Whether a cycle is kept hangs on the median of all its steps, with the agent and without, and on nothing else.
    """
    wanted = max(20, int(seconds * 1000 / (2 * len(KINDS) * (FEW + 1) * target_ms)))
    trainer = sized(target_ms)
    kept: list[Cycle] = []
    missed = 0
    before, begun = agent.periodic_seconds(), time.perf_counter()
    while len(kept) < wanted:
        each = switched(trainer, agent.switch)
        if near(each.step_ms, target_ms, within=1.25):
            kept.append(each)
        else:
            missed += 1
            if missed % 20 == 0:
                trainer = sized(target_ms)
        if time.perf_counter() - begun > 4 * seconds + 60:
            sys.exit(
                f"steps of {target_ms} ms cannot be held: {len(kept)} of {wanted} blocks, {missed} missed"
            )
    on = (time.perf_counter() - begun) / len(KINDS)
    return Watched(
        trainer=trainer,
        cycles=kept,
        step_ms=statistics.median(each.step_ms for each in kept),
        periodic=(agent.periodic_seconds() - before) / on,
    )


def compiled_graphs(agent: Agent) -> dict[str, int]:
    """Graphs and breaks of a compiled model with the agent on."""
    from torch._dynamo.utils import counters

    counters.clear()
    graphs = []

    def backend(module, _):
        graphs.append(module)
        return module.forward

    agent.switch(on=True)
    model = torch.compile(Trainer(4).model, backend=backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        model(torch.randn(4, 64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    agent.switch(on=False)
    return {"graphs": len(graphs), "breaks": sum(counters["graph_break"].values())}


def help_seconds() -> float:
    """Median wall time of `upshift --help`."""
    times = []
    for _ in range(9):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-m", "upshift", "--help"], stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def _cell(found: dict[str, float]) -> str:
    interval = f"{found['low'] * 100:+.2f} to {found['high'] * 100:+.2f}"
    return f"{found['overhead'] * 100:+6.2f}%  {interval:<16}"


def _print_row(step_ms: float, name: str, found: dict[str, dict[str, float]], periodic: float | None) -> None:
    cells = "  ".join(_cell(found[clock]) for clock in ("cpu", "wall"))
    share = "" if periodic is None else f"{periodic * 100:.2f}%"
    print(f"{step_ms:5.1f} ms  {name:<14}  {cells}  {share}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds", type=float, default=35, help="time for the agent's figure at 5 ms; more at 20 and 100"
    )
    parser.add_argument("--targets", type=int, nargs="+", choices=TARGETS_MS, default=list(TARGETS_MS))
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.manual_seed(0)
    agent = Agent()
    agent.sampler.start()
    result: dict = {"schema": "upshift.bench.overhead/1", "torch": torch.__version__, "steps": []}
    print(f"{'step':>8}  {'instrument':<14}  {'CPU':>7}  {'95 % interval':<16}  {'wall':>7}  ", end="")
    print(f"{'95 % interval':<16}  periodic")
    for target in options.targets:
        run = watched(agent, target, TARGETS_MS[target] * options.seconds)
        agents = summary(run.cycles, "instrumented")
        for clock in agents.values():
            for key in clock:
                clock[key] += run.periodic
        rows = [
            ("upshift agent", run.periodic, agents),
            ("A/A (nothing)", None, summary(run.cycles, "again")),
            ("torch.profiler", None, summary(started(run.trainer, torch_profiler, 5), "instrumented")),
        ]
        if shutil.which("py-spy"):
            rows.append(("py-spy 100 Hz", None, summary(started(run.trainer, py_spy, 5), "instrumented")))
        for name, periodic, found in rows:
            _print_row(run.step_ms, name, found, periodic)
            result["steps"].append(
                {
                    "step_ms": run.step_ms,
                    "target_ms": target,
                    "instrument": name,
                    "periodic": periodic,
                    **found,
                }
            )
    result["compiled"] = compiled_graphs(agent)
    result["help_seconds"] = help_seconds()
    print(f"compiled model with the agent: {result['compiled']['graphs']} graph, ", end="")
    print(f"{result['compiled']['breaks']} breaks; upshift --help {result['help_seconds']:.2f} s")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {options.json}")
    shutil.rmtree(agent.folder)


if __name__ == "__main__":
    main()
