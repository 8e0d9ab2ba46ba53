"""Wherever people make their settings: found in a real run, changed there, and shown to be the place by the next."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from upshift.command import understand
from upshift.knobs.change import Change
from upshift.real_runs import Launching, Runs
from upshift.search.bench import Bench, Request, Standing
from upshift.search.micro_batch import bind

PROGRAMS = Path(__file__).parent / "programs" / "bindings"
TARGET = 8
KINDS = [
    ("by_argparse.py", "--batch-size", "--grad-accum"),
    ("by_argparse.py -b 2 --grad-accum=8", "-b", "--grad-accum"),
    ("by_hf_parser.py", "--train_batch_size", "--gradient_accumulation_steps"),
    ("by_click.py", "--batch-size", "--accum"),
    ("by_typer.py", "--batch-size", "--grad-accum"),
    ("by_fire.py", "--batch_size", "--accumulation"),
    ("by_fire_command.py fit", "--batch_size", "--accumulation"),
    ("by_fire.py --batch_size=2 --accumulation 8", "--batch_size", "--accumulation"),
    ("by_tyro.py", "--minibatch-size", "--grad-accum-steps"),
    ("by_absl.py", "--batch_size", "--grad_accum"),
    ("by_variable.py", "$BATCH_SIZE", "$GRAD_ACCUM"),
    ("by_position.py", "by_position.py:batch_size", "by_position.py:grad_accum"),
    ("by_jsonargparse.py", "--train.batch_size", "--train.accumulate"),
    ("by_hydra.py", "data.batch_size=", "trainer.accumulate_grad_batches="),
    (
        "by_hydra.py data.batch_size=2 trainer.accumulate_grad_batches=8",
        "data.batch_size=",
        "trainer.accumulate_grad_batches=",
    ),
    ("by_omegaconf.py settings.yaml", "settings.yaml:training.batch", "settings.yaml:training.accum_steps"),
    ("by_file.py settings.json", "settings.json:train.batch_size", "settings.json:train.grad_accum"),
    ("by_file.py settings.toml", "settings.toml:train.batch_size", "settings.toml:train.grad_accum"),
    ("by_file.py settings.conf", "settings.conf:batch_size", "settings.conf:grad_accum"),
    (
        "by_trainer.py",
        "by_trainer.py:main.per_device_train_batch_size",
        "by_trainer.py:main.gradient_accumulation_steps",
    ),
    (
        "by_lightning_cli.py fit --config lightning.yaml",
        "lightning.yaml:data.batch_size",
        "lightning.yaml:trainer.accumulate_grad_batches",
    ),
    (
        "by_lightning_cli.py fit --data.batch_size 2 --trainer.accumulate_grad_batches=8 "
        "--trainer.accelerator cpu --trainer.max_epochs 1000 --trainer.logger false",
        "--data.batch_size",
        "--trainer.accumulate_grad_batches",
    ),
    (
        "by_trl_parser.py --config trl.yaml",
        "trl.yaml:per_device_train_batch_size",
        "trl.yaml:gradient_accumulation_steps",
    ),
    ("by_accelerator.py", "by_accelerator.py:batch_size", "by_accelerator.py:gradient_accumulation_steps"),
    ("by_module.py", "chosen.py:batch_size", "chosen.py:ACCUMULATION"),
    ("by_exec.py overrules.py", "overrules.py:batch_size", "overrules.py:gradient_accumulation_steps"),
    ("derived.py", "--batch_size", None),
    ("pieces.py", None, "--gradient_accumulation_steps"),
]


# The others run with `make test-slow`.
ALWAYS = ("by_jsonargparse.py", "by_hydra.py", "by_trainer.py", "overrules.py", "derived.py", "pieces.py")


@pytest.mark.parametrize(
    ("command", "batch", "accumulation"),
    [pytest.param(*k, id=k[0], marks=[] if k[0].endswith(ALWAYS) else pytest.mark.slow) for k in KINDS],
)
def test_found_and_confirmed(
    command: str, batch: str | None, accumulation: str | None, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    shutil.copytree(PROGRAMS, folder)
    now = Change(
        command=understand([sys.executable, *command.split()], folder), environment={"OMP_NUM_THREADS": "1"}
    )
    runs = Runs(now, Launching(look_seconds=1.0), lambda text: None)
    bench = Bench(Request(now=now), runs.ways())
    baseline, seen = bench.look(now)
    assert (baseline.micro_batch, baseline.grad_accum) == (2, 8), baseline
    bound, shown = bind(bench, Standing(trial=baseline, change=now), seen, TARGET)
    assert bound is not None and shown is not None, bench.rejected
    assert (shown.micro_batch, shown.grad_accum) == (TARGET, 2)
    assert str(bound.micro_batch) == str(batch)
    assert str(bound.grad_accum) == str(accumulation)
