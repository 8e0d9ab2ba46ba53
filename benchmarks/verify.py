"""How often `upshift verify` is right, and what it costs. `make bench-verify`.

Right: every trap of tests/traps.py, several times; a *false same* calls two trainings the same that are not, a *false
different* the other way round. Cost: a run of a model with a million parameters, 20 steps, bare and as verify
launches it, in turn; and the size of the trace it leaves.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from upshift import session
from upshift.command import understand
from upshift.session import Settings, Snapshot

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from traps import PROGRAMS, TRAPS, Trap  # noqa: E402
from upshift_cli import environment, upshift  # noqa: E402

RESULTS = Path(__file__).resolve().parent / "results" / "verify.json"
SAME = ("same", "reordered", "within_noise")
STEPS = 20


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
    print(f"{'trap':24} {'truth':13} {'verdicts':34} {'cause':18} {'ε':>8} {'floor':>8}")
    for trap in TRAPS:
        if not any(part in trap.name for part in only.split(",")):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = [ask(trap, Path(folder)) for _ in range(repeats)]
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


def watched(command: list[str], folder: Path) -> tuple[float, int]:
    """(seconds, bytes of trace) of a run as verify launches it."""
    size = 0

    def watch(snapshot: Snapshot) -> str | None:
        nonlocal size
        size = sum(p.path.stat().st_size for p in snapshot.processes if p.path.exists())
        return None

    begun = time.perf_counter()
    levers = {"seed": 1, "silence": True}
    variables = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    settings = Settings(levers=levers, witness=True, environment=variables)
    outcome = session.launch(understand(command, folder), settings, watch)
    assert outcome.exit_code == 0, outcome.stderr
    return time.perf_counter() - begun, size


def cpu_seconds() -> float:
    """Of this process and of all it has waited for: upshift's own work is in it, waiting for a core is not."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def cost(pairs: int) -> dict:
    """Bare against watched, in turn, by the wall and by CPU time."""
    command = [sys.executable, str(PROGRAMS / "million.py"), "--steps", str(STEPS)]
    ratios, cpu_ratios, sizes, bare_seconds = [], [], [], []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        for number in range(pairs + 1):
            begun, cpu = time.perf_counter(), cpu_seconds()
            subprocess.run(command, check=True, cwd=folder, env=environment(), capture_output=True)
            bare, bare_cpu = time.perf_counter() - begun, cpu_seconds() - cpu
            cpu = cpu_seconds()
            seconds, size = watched(command, Path(folder))
            if number:  # the first pair fills the caches
                ratios.append(seconds / bare)
                cpu_ratios.append((cpu_seconds() - cpu) / bare_cpu)
                sizes.append(size)
                bare_seconds.append(bare)
    found = {
        "bare_seconds": statistics.median(bare_seconds),
        "added": statistics.median(ratios) - 1,
        "added_low": min(ratios) - 1,
        "added_high": max(ratios) - 1,
        "added_cpu": statistics.median(cpu_ratios) - 1,
        "added_cpu_low": min(cpu_ratios) - 1,
        "added_cpu_high": max(cpu_ratios) - 1,
        "trace_bytes": max(sizes),
        "steps": STEPS,
    }
    print(
        f"a run of {found['bare_seconds']:.1f} s, {STEPS} steps, a million parameters: it adds {found['added']:.1%} "
        f"({found['added_low']:.1%} to {found['added_high']:.1%}); of CPU time {found['added_cpu']:.1%} "
        f"({found['added_cpu_low']:.1%} to {found['added_cpu_high']:.1%}); trace {found['trace_bytes'] / 1e6:.2f} MB"
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--only", default="", help="parts of names, with commas between them")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    result: dict = {"cost": cost(options.pairs)} if options.pairs else {}
    if options.repeats:
        result["traps"] = traps(options.repeats, options.only)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
