"""What a finding promises against what its fix delivers. `make bench-findings`.

For every planted program: profile it twice, take the finding's saving and bound (the mean of the two); run the
program as it is and mended, in turn and several times, and compare. The realised saving is from pairs of runs beside
each other, with the lowest and the highest pair as its range. A promise is kept when the realised saving is not above
the bound by more than the noise, which is half the spread of the pairs and half the difference of the two profiles;
one that was measured should also be within 15 points of what was realised.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parents[1] / "tests" / "programs" / "findings"
RESULTS = Path(__file__).resolve().parent / "results" / "findings.json"
NEAR = 0.15


@dataclass(frozen=True)
class Promise:
    """A program, the kind its finding has, and how many steps show what mending it saves."""

    program: str
    kind: str
    steps: int = 80
    mode: str = "planted"
    threads: bool = False


PROMISES = (
    Promise("micro_batch", "micro_batch", steps=300),
    Promise("per_sample_calls", "per_sample_calls"),
    Promise("many_calls", "many_calls"),
    Promise("data_wait", "data_wait"),
    Promise("workers_few", "workers_few"),
    Promise("workers_restarted", "workers_restarted"),
    Promise("checkpointing", "checkpointing"),
    Promise("precision_bf16", "precision_slow"),
    Promise("precision_fp64", "precision_high"),
    Promise("padding", "padding"),
    Promise("sequence_limit", "sequence_limit"),
    Promise("frozen", "frozen"),
    Promise("evaluation", "evaluation"),
    Promise("saving", "saving"),
    Promise("logging_prints", "logging", steps=300),
    Promise("optimizer", "optimizer"),
    Promise("threads_many", "threads_many", threads=True),
    Promise("threads_few", "threads_few", threads=True),
    Promise("recompiles", "recompiles", steps=40),
    Promise("no_sync", "no_sync", steps=40),
    Promise("unbalanced_ranks", "unbalanced_ranks", steps=40),
)


def environment(promise: Promise) -> dict[str, str]:
    """One thread, unless the program is about threads."""
    return {**os.environ, "OMP_NUM_THREADS": str(os.cpu_count()) if promise.threads else "1"}


def promised(promise: Promise) -> dict | None:
    """The finding, or None where it was missed."""
    done = subprocess.run(
        [sys.executable, "-m", "upshift", "profile", "--seconds", "8", "--json", "-", "--"]
        + [sys.executable, str(PROGRAMS / f"{promise.program}.py"), promise.mode],
        env=environment(promise),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{promise.program}: {done.stderr}")
    found = json.loads(done.stdout)["findings"]
    return next((f for f in found if f["kind"] == promise.kind), None)


def seconds(promise: Promise, mode: str) -> float:
    """Mean seconds of a step of one run, as the program itself says."""
    with tempfile.TemporaryFile(
        "w+"
    ) as output:  # a file, as in a profile: a pipe costs a printing program more
        subprocess.run(
            [sys.executable, str(PROGRAMS / f"{promise.program}.py"), mode, "--steps", str(promise.steps)],
            env=environment(promise),
            stdout=output,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        output.seek(0)
        return float(output.read().strip().splitlines()[-1].split()[-1])


def realised(promise: Promise, pairs: int) -> list[float]:
    """Savings of pairs of runs beside each other, every other pair the other way round."""
    savings = []
    for number in range(pairs):
        modes = (promise.mode, "fixed") if number % 2 == 0 else ("fixed", promise.mode)
        took = {mode: seconds(promise, mode) for mode in modes}
        savings.append(1 - took["fixed"] / took[promise.mode])
    return sorted(savings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="kinds")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = []
    print(
        f"{'finding':<18} {'predicted':>9}  {'bound':>6}  {'realised':>8}  {'range':<14}  how        verdict"
    )
    for promise in PROMISES:
        if options.only and promise.kind not in options.only:
            continue
        profiles = [promised(promise) for _ in range(2)]
        found = [finding for finding in profiles if finding is not None]
        if len(found) < 2:
            print(f"{promise.kind:<18} missed", flush=True)
            rows.append({"kind": promise.kind, "found": False})
            continue
        pairs = realised(promise, options.pairs)
        middle = statistics.median(pairs)
        saves = statistics.mean(f["saves_share"] for f in found)
        bound = statistics.mean(f["bound_share"] for f in found)
        apart = abs(found[0]["bound_share"] - found[1]["bound_share"])
        noise = max(0.03, (pairs[-1] - pairs[0]) / 2 + apart / 2)
        measured = all(f["measured"] for f in found)
        within = middle <= bound + noise
        close = not measured or abs(middle - saves) <= NEAR
        verdict = "kept" if within and close else "over the bound" if not within else "off"
        how = "tried" if measured else "worked out"
        print(
            f"{promise.kind:<18} {saves * 100:8.0f}%  {bound * 100:5.0f}%  {middle * 100:7.0f}%  "
            f"{pairs[0] * 100:.0f} to {pairs[-1] * 100:<7.0f}  {how:<11}{verdict}",
            flush=True,
        )
        rows.append(
            {
                "kind": promise.kind,
                "found": True,
                "predicted": saves,
                "bound": bound,
                "predictions": [f["saves_share"] for f in found],
                "bounds": [f["bound_share"] for f in found],
                "measured": measured,
                "realised": middle,
                "pairs": pairs,
                "within_bound": within,
                "close": close,
            }
        )
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({"schema": "upshift.bench.findings/1", "rows": rows}, indent=2) + "\n")
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
