"""A small recurrent model, stepped through time in Python: every call costs the same, whatever its batch.

--kind says where the settings come from: flags (with defaults), a YAML file, constants, a dataclass, a dict.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import torch
import yaml
from torch import nn

BATCH_SIZE = 2
GRAD_ACCUM = 8


@dataclass
class Settings:
    train_batch_size: int = 2
    accumulation_steps: int = 8


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(16, 32)
        self.out = nn.Linear(32, 5)

    def forward(self, x):
        hidden = x.new_zeros(len(x), 32)
        for moment in x.unbind(1):
            hidden = self.cell(moment, hidden)
        return self.out(hidden)


def chosen(args):
    """(micro-batch, accumulation) from wherever they are set."""
    if args.kind == "flags":
        return args.batch_size, args.accumulation
    if args.kind == "file":
        training = yaml.safe_load(Path(args.config).read_text())["training"]
        return training["batch"], training["accum_steps"]
    if args.kind == "constants":
        return BATCH_SIZE, GRAD_ACCUM
    if args.kind == "dataclass":
        return Settings().train_batch_size, Settings().accumulation_steps
    settings = {"mini_batch": 2, "update_freq": 8}
    return settings["mini_batch"], settings["update_freq"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", default="flags")
    parser.add_argument("--config")
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--accumulation", type=int, default=8)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--megabytes", type=int, default=0, help="held for every sample of a batch")
    args = parser.parse_args()
    micro, accumulation = chosen(args)
    torch.manual_seed(0)
    inputs, labels = torch.randn(512, 24, 16), torch.randint(0, 5, (512,))
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    at = 0
    for _ in range(args.steps):
        for _ in range(accumulation):
            rows = slice(at, at + micro)
            at = (at + micro) % 512
            held = torch.zeros(micro, args.megabytes, 1 << 18)
            loss = nn.functional.cross_entropy(model(inputs[rows]), labels[rows]) + held.sum()
            (loss / accumulation).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
