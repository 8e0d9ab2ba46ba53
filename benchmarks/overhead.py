"""What looking costs: the agent, torch.profiler and py-spy on steps of 5, 20 and 100 ms. `make bench`.

Whole runs cannot show a percent on a busy machine: the same run twice differs by more. So one process trains, and
every few steps it changes: without, with, with, without the instrument. Steps are timed one by one in CPU time of
the whole process, and by the wall less the time the thread waited for a core (/proc/thread-self/schedstat).
Neighbours only ever make a step slower, so the lower ends are compared: the tenth percentile of the steps with
against that of the steps without, with a 95 % interval from resampling the fours. A/A, nothing against nothing, goes
the same way in the same run: it is the floor below which nothing is known.

What the agent does by the clock and not by the step (its sampler five times a second, its flush twice) does not
show in the tenth percentile. It is timed by itself and added; the column `periodic` shows it.
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
FEW = 3
TARGETS_MS = (5, 20, 100)


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
        self.flush_seconds = 0.0
        self._time_flushes()
        self.sampler = GatedSampler(self.recorder, 0)
        self.recorder.sampler = self.sampler
        self.switch(on=False)

    def _time_flushes(self) -> None:
        send = self.recorder._send_books

        def timed() -> None:
            begun = time.thread_time()
            send()
            self.flush_seconds += time.thread_time() - begun

        self.recorder._send_books = timed

    def periodic_seconds(self) -> float:
        """CPU time of the sampler and of the flushes so far; the sampler ticks on while the agent is off."""
        return self.sampler.cpu_seconds / 2 + self.flush_seconds

    def switch_nothing(self, *, on: bool) -> None:
        """The A/A instrument: the same work, and off both times."""
        self.switch(on=False)

    def switch(self, *, on: bool) -> None:
        """Put the probes in place or the originals back; either way costs the same."""
        for owner, name, original, patched in self.patches:
            setattr(owner, name, patched if on else original)
        for hooks, ours in self.hooks:
            hooks.clear()
            if on:
                hooks.update(ours)
        self.recorder.closed = not on
        self.recorder.last = time.perf_counter()
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


Four = dict[bool, list[Step]]
ORDER = (False, True, True, False)


def switched(trainer: Trainer, switch: Callable, fours: int) -> list[Four]:
    """A few steps with, a few without; `switch(on=…)` costs the same either way."""
    found = []
    for _ in range(fours):
        four: Four = {True: [], False: []}
        for on in ORDER:
            switch(on=on)
            trainer.step()  # replacing methods empties the interpreter's caches: not what is measured
            four[on] += [timed_step(trainer) for _ in range(FEW)]
        found.append(four)
    switch(on=False)
    return found


def started(trainer: Trainer, instrument: Callable, fours: int) -> list[Four]:
    """Longer blocks, for an instrument that takes long to start and stop."""
    found = []
    for _ in range(fours):
        four: Four = {True: [], False: []}
        for on in ORDER:
            with instrument() if on else contextlib.nullcontext():
                trainer.step()
                four[on] += [timed_step(trainer) for _ in range(BLOCK)]
        found.append(four)
    return found


def overhead(fours: list[Four], clock: str) -> float:
    """How much later the tenth percentile of the instrumented steps lies, as a share."""
    low = {}
    for on in (True, False):
        steps = sorted(getattr(step, clock) for four in fours for step in four[on])
        low[on] = steps[len(steps) // 10]
    return low[True] / low[False] - 1


def summary(fours: list[Four]) -> dict[str, dict[str, float]]:
    """Overhead with its 95 % interval, by either clock."""
    result = {}
    for clock in ("wall", "cpu"):
        again = sorted(overhead(random.choices(fours, k=len(fours)), clock) for _ in range(200))
        result[clock] = {"overhead": overhead(fours, clock), "low": again[5], "high": again[-5]}
    return result


def sized(target_ms: float) -> Trainer:
    """A trainer whose step takes about `target_ms`: the batch is what is turned."""
    batch = 2.0
    depth = 14 if target_ms > 10 else 6  # fewer modules: 86 of them take more than 5 ms by themselves here
    for _ in range(12):
        trainer = Trainer(int(batch), depth=depth)
        steps = sorted(timed_step(trainer).wall for _ in range(24))
        took = steps[len(steps) // 4] * 1000
        if 0.9 * target_ms <= took <= 1.15 * target_ms:
            break
        batch = max(2.0, batch * min(4.0, target_ms / took), batch + (1 if took < target_ms else -1))
    return trainer


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30, help="time for each figure of the agent")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.manual_seed(0)
    agent = Agent()
    agent.sampler.start()
    result: dict = {"schema": "upshift.bench.overhead/1", "torch": torch.__version__, "steps": []}
    print(f"{'step':>8}  {'instrument':<14}  {'CPU':>7}  {'95 % interval':<16}  {'wall':>7}  ", end="")
    print(f"{'95 % interval':<16}  periodic")
    for target in TARGETS_MS:
        trainer = sized(target)
        actual = sorted(timed_step(trainer).wall for _ in range(24))[6] * 1000
        fours = max(15, int(options.seconds * 1000 / (4 * (FEW + 1) * actual)))
        rows = [("A/A (nothing)", switched, agent.switch_nothing, fours)]
        rows.append(("upshift agent", switched, agent.switch, fours))
        rows.append(("torch.profiler", started, torch_profiler, 5))
        if shutil.which("py-spy"):
            rows.append(("py-spy 100 Hz", started, py_spy, 5))
        for name, how, instrument, count in rows:
            periodic = agent.periodic_seconds()
            begun = time.perf_counter()
            found = summary(how(trainer, instrument, count))
            share = None
            if instrument == agent.switch:  # on for half of the time
                share = 2 * (agent.periodic_seconds() - periodic) / (time.perf_counter() - begun)
                for clock in found.values():
                    for key in clock:
                        clock[key] += share
            row = {"step_ms": actual, "target_ms": target, "instrument": name, "periodic": share, **found}
            result["steps"].append(row)
            cells = "  ".join(_cell(found[clock]) for clock in ("cpu", "wall"))
            print(f"{actual:5.1f} ms  {name:<14}  {cells}  ", end="")
            print("" if share is None else f"{share * 100:.2f}%", flush=True)
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
