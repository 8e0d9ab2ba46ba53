"""Train the pointer-generator summariser on clinical-style notes."""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import yaml
from data import PAD, Batch, build_loaders, to_device
from evaluate import evaluate
from model import PointerGenerator
from torch import Tensor
from torch.utils.data import DataLoader

DEFAULT_CONFIG = Path(__file__).parent / "configs" / "rtx4070_8gb.yaml"


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG)
    parser.add_argument("--max_steps", type=int, help="optimizer steps; overrides the config")
    parser.add_argument("--run_name", help="outputs go to runs/<run_name>; default: config's name")
    parser.add_argument("--resume", action="store_true", help="continue from the run's last.pt")
    return parser.parse_args()


def compute_loss(probs: Tensor, penalties: Tensor, targets: Tensor, weight: float) -> Tensor:
    """Mean over each note's own target tokens, then over the notes of the micro-batch."""
    mask = (targets != PAD).float()
    losses = -torch.log(probs.float() + 1e-12) + weight * penalties.float()
    return ((losses * mask).sum(dim=1) / mask.sum(dim=1)).mean()


def endless(loader: DataLoader) -> Iterator[Batch]:
    """Yield micro-batches for as many epochs as it takes."""
    while True:
        yield from loader


class Trainer:
    """The model, its optimizer and the files of one run."""

    def __init__(self, cfg: dict[str, Any], run_dir: Path) -> None:
        self.cfg = cfg
        self.run_dir = run_dir
        train = cfg["training"]
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        cuda = self.device.type == "cuda"
        if not cuda:
            torch.set_num_threads(1)  # a decoder step is too small to share between cores
        self.use_amp = train["amp"] and cuda
        torch.manual_seed(train["seed"])
        self.train_loader, self.val_loader, self.vocab = build_loaders(cfg, cuda)
        self.model = PointerGenerator(cfg["model"], len(self.vocab)).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=train["lr"])
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min(1.0, (step + 1) / train["warmup_steps"])
        )
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.use_amp)
        self.step = 0
        self.best = 0.0

    def save(self, name: str) -> None:
        """Write a checkpoint."""
        torch.save(
            {
                "config": self.cfg,
                "step": self.step,
                "best": self.best,
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scheduler": self.scheduler.state_dict(),
                "scaler": self.scaler.state_dict(),
            },
            self.run_dir / name,
        )

    def resume(self) -> None:
        """Continue from the last checkpoint."""
        saved = torch.load(self.run_dir / "last.pt", map_location=self.device)
        self.step, self.best = saved["step"], saved["best"]
        for part in ("model", "optimizer", "scheduler", "scaler"):
            getattr(self, part).load_state_dict(saved[part])
        print(f"resumed from step {self.step}")

    def log(self, **values: float) -> None:
        """Print one line and append it to metrics.jsonl."""
        print(f"step {self.step:>5}  " + "  ".join(f"{k} {v:.4g}" for k, v in values.items()))
        with (self.run_dir / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"step": self.step, **values}) + "\n")

    def train_step(self, batches: Iterator[Batch]) -> float:
        """Accumulate gradients over grad_accum micro-batches, then update; return the loss."""
        train = self.cfg["training"]
        self.optimizer.zero_grad()
        step_loss = 0.0
        for _ in range(train["grad_accum"]):
            batch = to_device(next(batches), self.device)
            with torch.autocast(self.device.type, enabled=self.use_amp):
                probs, penalties = self.model(batch)
            loss = compute_loss(probs, penalties, batch["tgt_out"], train["coverage_weight"])
            loss = loss / train["grad_accum"]
            self.scaler.scale(loss).backward()
            step_loss += loss.item()
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), train["grad_clip"])
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        self.step += 1
        return step_loss

    def run(self) -> None:
        """Train up to max_steps, logging, evaluating and saving on the way."""
        train = self.cfg["training"]
        self.model.train()
        batches = endless(self.train_loader)
        losses: list[float] = []
        start = time.perf_counter()
        while self.step < train["max_steps"]:
            losses.append(self.train_step(batches))
            if self.step % train["log_every"] == 0:
                seconds = (time.perf_counter() - start) / len(losses)
                lr = float(self.scheduler.get_last_lr()[0])
                self.log(loss=sum(losses) / len(losses), lr=lr, seconds_per_step=seconds)
                losses.clear()
                start = time.perf_counter()
            if self.step % train["eval_every"] == 0:
                self.run_evaluation()
                start = time.perf_counter()
            if self.step % train["save_every"] == 0:
                self.save("last.pt")
        self.save("last.pt")

    def run_evaluation(self) -> None:
        """Score the validation notes and keep the best model."""
        scores = evaluate(self.model, self.val_loader, self.vocab, self.cfg, self.device)
        self.log(**scores)
        if scores["rougeL"] > self.best:
            self.best = scores["rougeL"]
            self.save("best.pt")


def main() -> None:
    """Run the training."""
    args = parse_args()
    cfg = yaml.safe_load(args.config.read_text())
    if args.max_steps is not None:
        cfg["training"]["max_steps"] = args.max_steps
    run_dir = Path("runs") / (args.run_name or args.config.stem)
    run_dir.mkdir(parents=True, exist_ok=True)
    (run_dir / "config.yaml").write_text(yaml.safe_dump(cfg, sort_keys=False))

    trainer = Trainer(cfg, run_dir)
    if args.resume:
        trainer.resume()
    else:
        (run_dir / "metrics.jsonl").unlink(missing_ok=True)
    params = sum(p.numel() for p in trainer.model.parameters())
    print(f"{params / 1e6:.2f}M parameters, {len(trainer.vocab)} words, {trainer.device}")
    trainer.run()


if __name__ == "__main__":
    main()
