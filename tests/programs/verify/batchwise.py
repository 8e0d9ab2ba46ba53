"""Losses that look at the whole micro-batch. Modes: contrastive (in-batch negatives), balanced (a mixture of experts
with a balancing term), apart (the same mixture without it). Settings in batchwise.yaml."""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
import yaml
from torch import nn

MODE = sys.argv[1]


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 4)
        self.experts = nn.ModuleList(nn.Linear(16, 8) for _ in range(4))

    def forward(self, x):
        gates = self.gate(x).softmax(-1)
        mixed = sum(g.unsqueeze(-1) * e(x) for g, e in zip(gates.unbind(-1), self.experts, strict=True))
        chosen = F.one_hot(gates.argmax(-1), 4).float()
        return mixed, 4 * (gates.mean(0) * chosen.mean(0)).sum()


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(16, 12), nn.Linear(16, 12)

    def forward(self, x):
        return self.left(x), self.right(x.roll(1, -1))


def main():
    settings = yaml.safe_load((Path(__file__).parent / "batchwise.yaml").read_text())["training"]
    torch.manual_seed(0)
    data = torch.randn(512, 16)
    target = torch.randn(512, 8)
    model = Towers() if MODE == "contrastive" else Experts()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    at = 0
    while True:
        for _ in range(settings["accumulation"]):
            rows = slice(at, at + settings["batch_size"])
            at = (at + settings["batch_size"]) % 512
            if MODE == "contrastive":
                left, right = model(data[rows])
                loss = F.cross_entropy(left @ right.t(), torch.arange(len(left)))
            else:
                mixed, balance = model(data[rows])
                loss = F.mse_loss(mixed, target[rows])
                if MODE == "balanced":
                    loss = loss + 0.5 * balance
            (loss / settings["accumulation"]).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
