"""How often `upshift verify` is right, and what it costs. `make bench-verify`.

Right: every trap of tests/traps.py, several times; a *false same* calls two trainings the same that are not, a *false
different* the other way round. Cost: a run of the built-in example, and one of a model with a million parameters
for 20 steps, each bare, as verify makes it (ended when the steps are in), and watched to its own end, in turn; and
the size of the trace it leaves.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from upshift import session
from upshift.command import understand
from upshift.knobs.change import Change
from upshift.session import Settings, Snapshot
from upshift.verify.runs import Launcher, Side

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from traps import PROGRAMS, TRAPS, Trap  # noqa: E402
from upshift_cli import environment, upshift  # noqa: E402

RESULTS = Path(__file__).resolve().parent / "results" / "verify.json"
SAME = ("same", "reordered", "within_noise")
EXAMPLE = ROOT / "examples" / "pointer_generator"


@dataclass(frozen=True)
class TimedRun:
    """A run whose cost is measured."""

    command: list[str]
    steps: int


RUNS = {
    "example": TimedRun(
        [
            str(EXAMPLE / "train.py"),
            "--config",
            str(EXAMPLE / "configs" / "rtx4070_8gb.yaml"),
            "--max_steps",
            "8",
        ],
        8,
    ),
    "million": TimedRun([str(PROGRAMS / "million.py"), "--steps", "20"], 20),
}


def ask(trap: Trap, folder: Path) -> dict:
    """One question, answered by the installed upshift."""
    command = trap.command(sys.executable)
    options = list(trap.sets)
    if trap.against is not None:
        options += ["--against", shlex.join([*command, *trap.against])]
    cwd = PROGRAMS if trap.program == "batchwise.py" else folder
    run = upshift("verify", "--json", "-", "--steps", str(trap.steps), *options, "--", *command, cwd=cwd)
    return run.document.get(
        "verdict", {"kind": "error", "cause": run.stderr[-200:], "epsilon": None, "floor": None}
    )


def ask_apart(trap: Trap) -> dict:
    """The same in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return ask(trap, Path(folder))


def judged(trap: Trap, kind: str) -> str:
    """`right`, `false same`, `false different`, or what else went wrong."""
    if kind == trap.kind:
        return "right"
    if trap.kind not in SAME and kind in SAME:
        return "false same"
    if trap.kind in SAME and kind == "different":
        return "false different"
    return kind


def traps(repeats: int, only: str) -> list[dict]:
    """All traps, as often as asked."""
    rows = []
    # Two at once: what is judged is the answer, not the time it takes.
    pool = ThreadPoolExecutor(max_workers=2)
    chosen = [trap for trap in TRAPS if any(part in trap.name for part in only.split(","))]
    answers = {trap.name: [pool.submit(ask_apart, trap) for _ in range(repeats)] for trap in chosen}
    print(f"{'trap':24} {'truth':13} {'verdicts':34} {'cause':18} {'ε':>8} {'floor':>8}")
    for trap in chosen:
        found = [answer.result() for answer in answers[trap.name]]
        said = [judged(trap, v["kind"]) for v in found]
        counts = ", ".join(f"{said.count(word)} {word}" for word in dict.fromkeys(said))
        rows.append(
            {"trap": trap.name, "truth": trap.kind, "said": said, "causes": [v["cause"] for v in found]}
        )
        epsilon, floor = found[0]["epsilon"], found[0]["floor"]
        print(
            f"{trap.name:24} {trap.kind:13} {counts:34} {found[0]['cause'] or '':18.18} "
            f"{'' if epsilon is None else f'{epsilon:.0e}':>8} {'' if floor is None else f'{floor:.0e}':>8}",
            flush=True,
        )
    wrong = {word: sum(row["said"].count(word) for row in rows) for word in ("false same", "false different")}
    print(f"in all {sum(len(r['said']) for r in rows)} verdicts: {wrong}")
    return rows


def as_made(command: list[str], steps: int, folder: Path) -> None:
    """A run as verify makes it."""
    change = Change(command=understand(command, folder), environment={"OMP_NUM_THREADS": "1"})
    trace = Launcher()(Side(change=change), steps, False)
    assert len(trace.steps) >= steps, len(trace.steps)


def to_its_end(command: list[str], folder: Path) -> int:
    """The same, not ended by verify. Bytes of the trace."""
    size = 0

    def watch(snapshot: Snapshot) -> str | None:
        nonlocal size
        size = sum(p.path.stat().st_size for p in snapshot.processes if p.path.exists())
        return None

    side = Side(change=Change(command=understand(command, folder)))
    variables = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    settings = Settings(levers=side.levers, witness=True, environment=variables)
    outcome = session.launch(side.change.command, settings, watch)
    assert outcome.exit_code == 0, outcome.stderr
    return size


def cost(name: str, pairs: int) -> dict:
    """Bare, as verify makes it, and to its end: in turn."""
    command = [sys.executable, *RUNS[name].command]
    times: dict[str, list[float]] = {"bare": [], "as made": [], "to its end": []}
    size = 0

    def bare() -> None:
        subprocess.run(command, check=True, cwd=folder, env=environment(), capture_output=True)

    def whole() -> None:
        nonlocal size
        size = max(size, to_its_end(command, Path(folder)))

    ways = {
        "bare": bare,
        "as made": lambda: as_made(command, RUNS[name].steps, Path(folder)),
        "to its end": whole,
    }
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        for number in range(pairs + 1):
            for way, run in ways.items():
                begun = time.perf_counter()
                run()
                if number:  # the first round fills the caches
                    times[way].append(time.perf_counter() - begun)
    found: dict = {
        "run": name,
        "rounds": pairs,
        "bare_seconds": statistics.median(times["bare"]),
        "trace_bytes": size,
    }
    print(f"{name}: {RUNS[name].steps} steps, {found['bare_seconds']:.1f} s bare; trace {size / 1e6:.2f} MB")
    for way in ("as made", "to its end"):
        ratios = [took / alone for took, alone in zip(times[way], times["bare"], strict=True)]
        low, high = interval(ratios)
        found[way.replace(" ", "_")] = {
            "added": statistics.median(ratios) - 1,
            "low": low - 1,
            "high": high - 1,
        }
        print(
            f"  {way:12} {statistics.median(ratios) - 1:+.1%} ({low - 1:+.1%} to {high - 1:+.1%})", flush=True
        )
    return found


def interval(ratios: list[float]) -> tuple[float, float]:
    """95 % of the median, by drawing the pairs again."""
    dice = random.Random(0)
    medians = sorted(statistics.median(dice.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[50], medians[-51]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--only", default="", help="parts of names, with commas between them")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    result: dict = {"cost": [cost(name, options.pairs) for name in RUNS]} if options.pairs else {}
    if options.repeats:
        result["traps"] = traps(options.repeats, options.only)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
