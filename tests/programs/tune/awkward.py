"""Trainings that make tuning hard, one way each (--how).

micro_steps: limit, cadences and warm-up are counted in micro-batches.  cache: the first run leaves a cache behind,
and a run that finds it trains a model of another size.  parent: writes beside its own folder.  twice: reads its
config again before the loop and stops if it has changed.  late: takes a minute to start.
"""

import argparse
import time
from pathlib import Path

import torch
import yaml
from torch import nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.cell = nn.GRUCell(16, width)
        self.out = nn.Linear(width, 5)

    def forward(self, x):
        hidden = x.new_zeros(len(x), self.cell.hidden_size)
        for moment in x.unbind(1):
            hidden = self.cell(moment, hidden)
        return self.out(hidden)


def width_from_cache(how):
    if how != "cache":
        return 32
    cache = Path("cache.txt")
    width = 48 if cache.exists() else 32
    cache.write_text("prepared\n")
    return width


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--how", required=True)
    parser.add_argument("--config", default="c.yaml")
    args = parser.parse_args()
    config = yaml.safe_load(Path(args.config).read_text())
    if args.how == "late":
        time.sleep(60)
    if args.how == "parent":
        (Path.cwd().parent / "left_behind.txt").write_text("written by a run\n")
    torch.manual_seed(0)
    inputs, labels = torch.randn(512, 24, 16), torch.randint(0, 5, (512,))
    model = Model(width_from_cache(args.how))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    warmup = config["warmup_steps"]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / warmup))
    if args.how == "twice" and yaml.safe_load(Path(args.config).read_text()) != config:
        raise SystemExit("the config has changed meanwhile")

    micro_steps = args.how == "micro_steps"
    batch, accumulation = config["batch_size"], config["grad_accum"]
    at = counted = micro = 0
    while counted < config["max_steps"]:
        rows = slice(at, at + batch)
        at = (at + batch) % 512
        loss = nn.functional.cross_entropy(model(inputs[rows]), labels[rows])
        (loss / accumulation).backward()
        micro += 1
        stepped = micro % accumulation == 0
        if stepped:
            optimizer.step()
            optimizer.zero_grad()
        if not (stepped or micro_steps):
            continue
        schedule.step()
        counted += 1
        if counted % config["eval_every"] == 0:
            model.eval()
            with torch.no_grad():
                model(inputs[:64])
            model.train()
        if counted % config["save_every"] == 0:
            torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
