"""What looking costs: the agent, torch.profiler and py-spy on steps of 5, 20 and 100 ms. `make bench`.

Whole runs cannot show a percent on a busy machine: the same run twice differs by more. So one process trains, and
blocks of steps with and without the instrument alternate in it; the time the thread waited for a core
(/proc/thread-self/schedstat) is subtracted; each pair of neighbouring blocks gives one ratio, and the median of
the ratios is reported with its 95 % interval. A/A, nothing against nothing, is measured the same way in the same
run: it is the floor below which nothing is known.
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
TARGETS_MS = (5, 20, 100)


class Block(nn.Module):
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
        self.model = nn.Sequential(*(Block(width) for _ in range(depth)), nn.Linear(width, 10))
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


class Agent:
    """The agent's probes, put in place and taken off again around each block."""

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
        self.off()

    def off(self) -> None:
        for owner, name, original, _ in self.patches:
            setattr(owner, name, original)
        for hooks, _ in self.hooks:
            hooks.clear()

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        for owner, name, _, patched in self.patches:
            setattr(owner, name, patched)
        for hooks, ours in self.hooks:
            hooks.update(ours)
        self.recorder.activate()
        self.recorder.active, self.recorder.closed = True, False
        self.recorder.last = time.perf_counter()
        sampler = Sampler(self.recorder, 0)
        self.recorder.sampler = sampler
        sampler.start()
        try:
            yield
        finally:
            self.recorder.active, self.recorder.closed = False, True
            sampler.join()
            sys.setswitchinterval(0.005)
            self.off()


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
def nothing() -> Iterator[None]:
    yield


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


def block(trainer: Trainer) -> float:
    """Median seconds of a step over one block, without the time spent waiting for a core."""
    seconds = []
    for _ in range(BLOCK):
        begun, queue = time.perf_counter(), waited()
        trainer.step()
        seconds.append(time.perf_counter() - begun - (waited() - queue))
    return statistics.median(seconds)


def compare(trainer: Trainer, instrument: Callable, pairs: int) -> dict[str, float]:
    """Median ratio with/without over neighbouring blocks, in random order, with its 95 % interval."""
    ratios = []
    for _ in range(pairs):
        measured = {}
        for kind in random.sample(("with", "without"), 2):
            with instrument() if kind == "with" else nothing():
                trainer.step()
                measured[kind] = block(trainer)
        ratios.append(measured["with"] / measured["without"])
    resampled = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(2000))
    return {
        "overhead": statistics.median(ratios) - 1,
        "low": resampled[50] - 1,
        "high": resampled[-50] - 1,
        "pairs": pairs,
    }


def sized(target_ms: float) -> Trainer:
    """A trainer whose step takes about `target_ms`: the batch is what is turned."""
    batch = 4
    while True:
        trainer = Trainer(batch)
        for _ in range(4):
            trainer.step()
        took = min(block(trainer) for _ in range(2)) * 1000
        if took >= 0.85 * target_ms or batch > 100_000:
            return trainer
        batch = max(batch + 1, int(batch * min(4.0, target_ms / took)))


def compiled_graphs(agent: Agent) -> dict[str, int]:
    """Graphs and breaks of a compiled model with the agent on."""
    from torch._dynamo.utils import counters

    counters.clear()
    graphs = []

    def backend(module, _):
        graphs.append(module)
        return module.forward

    with agent.on():
        model = torch.compile(Trainer(4).model, backend=backend)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(6):
            model(torch.randn(4, 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return {"graphs": len(graphs), "breaks": sum(counters["graph_break"].values())}


def help_seconds() -> float:
    """Median wall time of `upshift --help`."""
    times = []
    for _ in range(9):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-m", "upshift", "--help"], stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=60, help="pairs of blocks for each agent figure")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.manual_seed(0)
    agent = Agent()
    result: dict = {"schema": "upshift.bench.overhead/1", "torch": torch.__version__, "steps": []}
    print(f"{'step':>8}  {'instrument':<16}{'overhead':>9}   95 % interval")
    for target in TARGETS_MS:
        trainer = sized(target)
        actual = min(block(trainer) for _ in range(3)) * 1000
        pairs = options.pairs if target < 100 else max(10, options.pairs // 3)
        rows = [("A/A (nothing)", nothing, pairs), ("upshift agent", agent.on, pairs)]
        rows.append(("torch.profiler", torch_profiler, max(6, pairs // 6)))
        if shutil.which("py-spy"):
            rows.append(("py-spy 100 Hz", py_spy, max(6, pairs // 6)))
        for name, instrument, count in rows:
            found = compare(trainer, instrument, count)
            result["steps"].append({"step_ms": actual, "target_ms": target, "instrument": name, **found})
            interval = f"{found['low'] * 100:+.2f} to {found['high'] * 100:+.2f} %"
            print(f"{actual:5.1f} ms  {name:<16}{found['overhead'] * 100:+8.2f} %   {interval}", flush=True)
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
