"""What `upshift tune` finds, against every combination there is. `make bench-tune`, which takes two hours.

For each training of trainers.py: tune it; then run the whole grid of the knobs it was given, one short run a cell, as
tune's own trials; then let Optuna's TPE choose as many cells as tune has run trials. What each has chosen runs beside
the grid's best in pairs, which takes the luck out of a grid's maximum.
The frameworks' own batch finders (finders.py) know no effective batch: what they find is cut to it, as a careful user
would, and runs beside the grid's best as well.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from upshift.command import understand
from upshift.knobs import allocators
from upshift.knobs.binding import Binding, Flag, Variable
from upshift.knobs.change import Change
from upshift.real_runs import Launching, Runs
from upshift.search.confirm import confirm
from upshift.search.model import divisors
from upshift.search.trial import Trial

HERE = Path(__file__).resolve().parent
TRAINERS, FINDERS = HERE / "trainers.py", HERE / "finders.py"
RESULTS = HERE / "results" / "tune.json"
KINDS = ("calls", "loader", "optimizer", "recompute", "threads")
EFFECTIVE = 24
PRECISION = 0.03
FEW_STARTS = 3
HEAT_SECONDS = 4.0
ENVIRONMENT = {"OMP_NUM_THREADS": "2", **allocators.variables(allocators.KEEPING)}
"""Threads as torch would have it here, said so that a cell is told by its settings. And for all alike memory that is
kept: without it two starts of one cell differ by up to a third, and the grid's best would be the luckiest start."""
AXES: dict[str, tuple[Binding, tuple[object, ...]]] = {
    "micro_batch": (Flag("--batch-size"), tuple(divisors(EFFECTIVE))),
    "workers": (Flag("--num-workers"), (0, 1, 2)),
    "fused_optimizer": (Flag("--fused"), (False, True)),
    "checkpointing": (Flag("--grad-checkpointing"), (False, True)),
    "threads": (Variable("OMP_NUM_THREADS"), (1, 2)),
}


@dataclass(frozen=True)
class Search:
    """One training in a folder of its own."""

    kind: str
    folder: Path

    @property
    def now(self) -> Change:
        recompute = str(self.kind == "recompute")
        argv = [sys.executable, str(TRAINERS), self.kind, "--batch-size", "2", "--grad-accum", "12"]
        argv += ["--num-workers", "0", "--fused", "False", "--grad-checkpointing", recompute]
        return Change(command=understand(argv, self.folder), environment=ENVIRONMENT)

    def cell(self, values: dict[str, object]) -> Change:
        """The training with these settings; the accumulation follows."""
        change = Flag("--grad-accum").apply(self.now, EFFECTIVE // int(str(values["micro_batch"])))
        for knob, value in values.items():
            if value is not None:
                change = AXES[knob][0].apply(change, value)
        return change


def tuned(search: Search) -> tuple[dict, Change]:
    """The document of a real tuning, and what it would run."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "upshift", "tune", "--json", "-", "--only", ",".join(AXES)),
            *("--", *search.now.command.argv),
        ],
        cwd=search.folder,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(done.stderr)
    document = json.loads(done.stdout)
    applied = document["applied"]
    change = search.now
    if applied:
        change = change.with_argv(tuple(applied["command"]))
        for name, value in applied["environment"].items():
            change = change.with_variable(name, value)
    return document, change


def rate(trial: Trial) -> float:
    return (trial.samples_per_second or 0.0) if trial.effective_batch == EFFECTIVE else 0.0


def grid(search: Search, runs: Runs) -> tuple[dict, float, float]:
    """(best cell, its samples/s, seconds of all cells)."""
    begun = time.perf_counter()
    cells = [
        dict(zip(AXES, values, strict=True)) for values in itertools.product(*(v for _, v in AXES.values()))
    ]
    rates = []
    for number, cell in enumerate(cells):
        rates.append(rate(runs.run(search.cell(cell), cell)))
        if number % 20 == 0:
            print(f"  {search.kind}: cell {number} of {len(cells)}", file=sys.stderr, flush=True)
    best = max(range(len(cells)), key=lambda n: rates[n])
    return cells[best], rates[best], time.perf_counter() - begun


def tpe(search: Search, runs: Runs, trials: int) -> dict:
    """The best of as many cells as tune has tried, chosen by Optuna."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def objective(trial: optuna.Trial) -> float:
        cell = {
            knob: values[trial.suggest_int(knob, 0, len(values) - 1)] for knob, (_, values) in AXES.items()
        }
        return rate(runs.run(search.cell(cell), cell, suffix="-tpe"))

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(objective, n_trials=trials)
    return {knob: AXES[knob][1][number] for knob, number in study.best_params.items()}


def finder(name: str) -> int:
    """The micro-batch that a framework's own finder chooses."""
    done = subprocess.run(
        [sys.executable, str(FINDERS), name], capture_output=True, text=True, check=True, cwd="/var/tmp"
    )
    return int(done.stdout.split()[-1])


def by_finders(search: Search, runs: Runs, top: Change) -> dict:
    """What the finders choose for the recurrent training, with today's other settings: a few starts show it."""
    found = {}
    for name in ("hugging_face", "lightning"):
        size = finder(name)
        cut = max(d for d in divisors(EFFECTIVE) if d <= size)
        change = Flag("--batch-size").apply(search.now, cut)
        change = Flag("--grad-accum").apply(change, EFFECTIVE // cut)
        found[name] = {"found": size, "cut_to": cut, "over_grid": beside(runs, top, change, FEW_STARTS)}
    return found


def beside(runs: Runs, before: Change, after: Change, starts: int) -> dict:
    """`after` over `before`, known to a few per cent or from so many starts; exactly 1 where they are one cell."""
    if (before.command, before.environment) == (after.command, after.environment):
        return {"ratio": 1.0, "low": 1.0, "high": 1.0}
    with closing(runs.versus((before, {}), (after, {}), "benchmark", HEAT_SECONDS)) as heats:
        found = confirm(itertools.islice(heats, starts), precision=PRECISION)
    if found is None:
        sys.exit(f"the runs did not go on: {after.command}")
    return {"ratio": found.ratio, "low": found.low, "high": found.high}


def against_the_grid(kind: str, starts: int) -> dict:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        search = Search(kind, Path(folder))
        document, chosen = tuned(search)
        runs = Runs(search.now, Launching(), lambda text: None)
        runs.look(search.now)
        best, best_rate, seconds = grid(search, runs)
        by_tpe = tpe(search, runs, len(document["trials"]))
        top = search.cell(best)
        row = {
            "kind": kind,
            "tuned": document["best"]["settings"],
            "speedup": document["speedup"],
            "tuning_seconds": document["tuning_seconds"],
            "trials": len(document["trials"]),
            "grid_best": best,
            "grid_samples_per_second": best_rate,
            "grid_seconds": seconds,
            "tuned_over_grid": beside(runs, top, chosen, starts),
            "tpe": by_tpe,
            "tpe_over_grid": beside(runs, top, search.cell(by_tpe), starts),
            "finders": by_finders(search, runs, top) if kind == "calls" else {},
        }
    Console(stderr=True).print(table([row]))
    return row


def table(rows: list[dict]) -> Table:
    """Throughput over that of the grid's best, with its 95 % interval; time over that of the grid."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in (
        "training",
        "tune",
        "over the grid's best",
        "time over the grid's",
        "TPE, equal trials",
        "finders",
    ):
        shown.add_column(name)
    for row in rows:
        shown.add_row(
            row["kind"],
            f"{row['speedup']['ratio']:.2f}×" if row["speedup"] else "left as it is",
            _interval(row["tuned_over_grid"]),
            f"{row['tuning_seconds']:.0f} of {row['grid_seconds']:.0f} s: "
            f"{row['tuning_seconds'] / row['grid_seconds']:.2f}",
            _interval(row["tpe_over_grid"]),
            ", ".join(
                f"{name}: {f['found']}, cut to {f['cut_to']}: {_interval(f['over_grid'])}"
                for name, f in row["finders"].items()
            ),
        )
    return shown


def _interval(found: dict) -> str:
    return f"{found['ratio']:.2f} ({found['low']:.2f} to {found['high']:.2f})"


def source() -> str:
    """What is measured: a hash of upshift's code and of this benchmark's."""
    files = sorted((HERE.parent / "src").rglob("*.py")) + [Path(__file__), TRAINERS, FINDERS]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument(
        "--resume", action="store_true", help="keep the rows that were measured on this source tree"
    )
    parser.add_argument("--starts", type=int, default=6, help="at most, of a race against the grid's best")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    tree, rows = source(), {}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    if options.resume and options.json.exists():
        known = json.loads(options.json.read_text())["grid"]
        rows = {row["kind"]: row for row in known if row.get("source") == tree}
    for kind in options.kinds:
        if kind not in rows:
            measured = time.strftime("%Y-%m-%d %H:%M")
            rows[kind] = {**against_the_grid(kind, options.starts), "source": tree, "begun": measured}
        found = [rows[kind] for kind in KINDS if kind in rows]
        options.json.write_text(
            json.dumps({"schema": "upshift.bench.tune/4", "grid": found}, indent=2) + "\n"
        )
    Console(width=160).print(table(found))
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
