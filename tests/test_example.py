"""The built-in example: profiled by `upshift demo`, and honest by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from upshift_cli import environment, profile, upshift

pytestmark = pytest.mark.timed

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "pointer_generator"
CONFIG = EXAMPLE / "configs" / "rtx4070_8gb.yaml"


def test_profile_of_the_baseline(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLE / "train.py"), "--config", str(CONFIG)]
    run = profile(command, "--steps", "4", cwd=tmp_path)
    assert run.code == 0, run.stderr
    found = run.document
    assert found["schema"] == "upshift.profile/1"
    assert (found["micro_batch"], found["grad_accum"], found["effective_batch"]) == (1, 16, 16)
    assert sum(p["share"] or 0 for p in found["phases"]) == pytest.approx(1.0, abs=0.02)
    assert not list(tmp_path.iterdir())


def test_parts_and_causes_of_the_baseline(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLE / "train.py"), "--config", str(CONFIG)]
    run = profile(command, "--steps", "5", cwd=tmp_path, experiments=True)
    assert run.code == 0, run.stderr
    found = run.document
    modules = {m["name"].removeprefix("PointerGenerator."): m for m in found["modules"]}
    whole = modules["PointerGenerator"]
    parts = ("embedding", "encoder", "key", "value", "decoder", "pointer", "dropout")
    inside = sum(modules[part]["forward_seconds"] for part in parts)
    assert inside + whole["forward_own_seconds"] == pytest.approx(whole["forward_seconds"], rel=0.05)
    phases = {p["name"]: p for p in found["phases"]}
    assert whole["forward_seconds"] == pytest.approx(phases["forward"]["seconds"], rel=0.02)
    assert {"data_wait", "loss", "backward", "optimizer", "other"} <= set(phases)
    assert modules["decoder.attention"]["calls_per_step"] > 16 * 20
    causes = {f["kind"]: f for f in found["findings"]}
    assert "training.batch_size" in causes["micro_batch"]["fix"]
    assert causes["micro_batch"]["saves_share"] > 0.4
    assert "decoder" in causes["many_calls"]["title"]
    assert 0 < found["limit"]["compute_share"] < 0.5


def test_demo(tmp_path: Path) -> None:
    run = upshift("demo", "--steps", "3", cwd=tmp_path)
    assert run.code == 0, run.stderr
    assert run.stdout.startswith("A step takes ")
    assert "micro-batch 1 × accumulation 16 = 16 samples a step" in run.stdout
    assert "next: upshift profile" in run.stdout
    assert not list(tmp_path.iterdir())


def test_it_trains_evaluates_saves_and_resumes(tmp_path: Path) -> None:
    config = tmp_path / "short.yaml"
    text = (
        CONFIG.read_text()
        .replace("grad_accum: 16", "grad_accum: 2")
        .replace("batch_size: 1", "batch_size: 4")
    )
    for key, value in (("eval_every", 2), ("save_every", 2), ("log_every", 1), ("max_eval_batches", 1)):
        before = next(line for line in text.splitlines() if line.strip().startswith(f"{key}:"))
        text = text.replace(before, f"  {key}: {value}")
    config.write_text(text)
    for more in (["--max_steps", "2"], ["--max_steps", "3", "--resume"]):
        subprocess.run(
            [sys.executable, str(EXAMPLE / "train.py"), "--config", str(config), "--run_name", "t", *more],
            cwd=tmp_path,
            env=environment(),
            check=True,
            capture_output=True,
        )
    log = (tmp_path / "runs" / "t" / "metrics.jsonl").read_text()
    assert '"step": 3' in log
    assert "rougeL" in log
    assert (tmp_path / "runs" / "t" / "last.pt").exists()


def test_a_note_counts_the_same_in_any_batch(tmp_path: Path) -> None:
    """1 × 4 and 4 × 1 give the same gradient: the example's loss is normalised rightly."""
    program = f"""
import sys, yaml, torch
sys.path.insert(0, {str(EXAMPLE)!r})
from data import build_loaders
from model import PointerGenerator
from train import compute_loss
cfg = yaml.safe_load(open({str(CONFIG)!r}))
cfg["model"]["dropout"] = 0.0
cfg["data"].update(num_train=40, num_val=4)

def gradient(batch_size):
    cfg["training"]["batch_size"] = batch_size
    torch.manual_seed(0)
    loader, _, vocab = build_loaders(cfg, False)
    loader = torch.utils.data.DataLoader(loader.dataset, batch_size, collate_fn=loader.collate_fn)
    model = PointerGenerator(cfg["model"], len(vocab))
    batches = iter(loader)
    for _ in range(4 // batch_size):
        batch = next(batches)
        probs, penalties = model(batch)
        (compute_loss(probs, penalties, batch["tgt_out"], 1.0) * batch_size / 4).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])

one, four = gradient(1), gradient(4)
print(float((one - four).norm() / one.norm()))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 1e-4
