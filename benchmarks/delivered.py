"""What `upshift tune` promises for the example, against what the config it writes delivers. `make bench-delivered`.

The example is tuned; then the old and the written config train without upshift, beside each other, in several passes:
one sleeps while the other makes ten steps. Each pass starts both anew and has as many steps as tune has raced in a
start: the gain of a step hangs on its longest text, and both figures must speak of the same steps.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from upshift.search.confirm import Heat, Pair, speedup, total

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parent / "examples" / "pointer_generator"
RESULTS = HERE / "results" / "delivered.json"
LOG_EVERY, EVAL_EVERY = 10, 100
"""As the example's config has them."""


class Alone:
    """A training without upshift, which sleeps between the lines of its own log."""

    def __init__(self, folder: Path, argv: list[str], environment: dict[str, str], name: str) -> None:
        self._log = folder / "runs" / name / "metrics.jsonl"
        self._log.unlink(missing_ok=True)
        self._taken, self._asleep_since = 0, 0.0
        self._process = subprocess.Popen(
            [*argv, "--run_name", name],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def turn(self) -> float:
        """Let it go to its next line: seconds of those steps, by its own clock and without the sleep."""
        asleep = time.perf_counter() - self._asleep_since if self._asleep_since else 0.0
        self._signal(signal.SIGCONT)
        seconds = -asleep
        while True:
            rows = self._rows()
            for row in rows[self._taken :]:
                self._taken += 1
                seconds += LOG_EVERY * row["seconds_per_step"]
                if (
                    row["step"] % EVAL_EVERY
                ):  # its clock begins anew after an evaluation: no sleep before that
                    self._signal(signal.SIGSTOP)
                    self._asleep_since = time.perf_counter()
                    return seconds
            if self._process.poll() is not None:
                sys.exit(f"the run has ended: {self._process.args}")
            time.sleep(0.01)

    def end(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _rows(self) -> list[dict]:
        if not self._log.exists():
            return []
        whole = self._log.read_text().rpartition("\n")[0].splitlines()
        return [row for line in whole if "seconds_per_step" in (row := json.loads(line))]

    def _signal(self, number: int) -> None:
        os.killpg(self._process.pid, number)


def tuned(folder: Path, command: list[str], options: list[str]) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "upshift", "tune", "--json", "-", *options, "--", *command],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def raced_seconds(folder: Path) -> float:
    """Of the run as it is, in the longest heat of the race that confirmed it."""
    entries = [json.loads(line) for line in (folder / ".upshift" / "trials.jsonl").read_text().splitlines()]
    heats = [e["heat"] for e in entries if "heat" in e and e["of"].endswith("confirm")]
    return max(total(heat)[0] for heat in heats)


def beside_each_other(folder: Path, old: list[str], applied: dict, seconds: float) -> Heat:
    """Pairs of ten steps each, for so many seconds of the old config."""
    runs: list[Alone] = []
    pairs: list[Pair] = []
    try:
        # The second starts when the first one sleeps. The first steps warm up.
        for name, argv, environment in (
            ("old", old, {}),
            ("new", applied["command"], applied["environment"]),
        ):
            runs.append(Alone(folder, argv, environment, name))
            runs[-1].turn()
        while sum(before for before, _ in pairs) < seconds:
            order = runs if len(pairs) % 2 else runs[::-1]
            took = {run: run.turn() for run in order}
            pairs.append((took[runs[0]], took[runs[1]]))
    finally:
        for run in runs:
            run.end()
    return tuple(pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", default="7m", help="of the tuning")
    parser.add_argument("--passes", type=int, default=3, help="over the same steps, without upshift")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
        folder = Path(scratch) / EXAMPLE.name
        shutil.copytree(EXAMPLE, folder)
        command = [sys.executable, "train.py", "--config", "configs/rtx4070_8gb.yaml"]
        document = tuned(folder, command, ["--precision", "1%", "--budget", options.budget])
        promised, applied = document["speedup"], document["applied"]
        seconds = raced_seconds(folder)
        passes = [beside_each_other(folder, command, applied, seconds) for _ in range(options.passes)]
    found = speedup(passes)
    row = {
        "schema": "upshift.bench.delivered/2",
        "promised": promised,
        "verdict": document["verdict"],
        "settings": document["best"]["settings"],
        "tuning_seconds": document["tuning_seconds"],
        "delivered": {"ratio": found.ratio, "low": found.low, "high": found.high},
        "passes": [speedup([heat]).ratio for heat in passes],
        "steps": [LOG_EVERY * len(pairs) for pairs in passes],
        "delivered_over_promised": found.ratio / promised["ratio"],
    }
    print(
        f"promised  {promised['ratio']:.2f}× ({promised['low']:.2f} to {promised['high']:.2f}), "
        f"{document['verdict']['kind']}, in {document['tuning_seconds']:.0f} s\n"
        f"delivered {found.ratio:.2f}× ({found.low:.2f} to {found.high:.2f}) over {row['steps']} steps: "
        f"{found.ratio / promised['ratio'] - 1:+.1%}",
        flush=True,
    )
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(row, indent=2) + "\n")
    print(f"written to {options.json}")


if __name__ == "__main__":
    main()
