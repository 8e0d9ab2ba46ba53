"""Small trainings with one bottleneck each, for benchmarks/tune.py. They run until they are ended.

calls: a recurrent cell stepped in Python, every call costs the same.  loader: clips decoded in Python.
optimizer: many parameters, little arithmetic, an optimizer that loops over them.  recompute: activations that are
computed again in the backward.  threads: small matrix products, slower on two threads than on one.
"""

import argparse

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

KINDS = ("calls", "loader", "optimizer", "recompute", "threads")


class Clips(Dataset):
    """Vectors; for the loader's training each is decoded in pure Python."""

    def __init__(self, width, decode):
        self.rows = torch.randn(2048, width, generator=torch.Generator().manual_seed(0))
        self.decode = decode

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        if self.decode:
            level, readings = 0.0, []
            for value in row.tolist() * 60:
                level = 0.9 * level + 0.1 * value
                readings.append(level)
            row = row + sum(readings) * 1e-6
        return row, index % 10


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(16, 48)
        self.out = nn.Linear(48, 10)

    def forward(self, x):
        hidden = x.new_zeros(len(x), 48)
        for moment in x.view(len(x), -1, 16).unbind(1):
            hidden = self.cell(moment, hidden)
        return self.out(hidden)


class Deep(nn.Module):
    def __init__(self, width, inner, depth, recompute):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width)) for _ in range(depth)
        )
        self.out = nn.Linear(width, 10)
        self.recompute = recompute

    def forward(self, x):
        for layer in self.layers:
            x = x + (checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x))
        return self.out(x)


def model_of(kind, recompute):
    if kind == "calls":
        return Recurrent()
    width, inner, depth = {
        "loader": (256, 256, 2),
        "optimizer": (96, 96, 120),
        "recompute": (256, 1024, 6),
        "threads": (64, 64, 40),
    }[kind]
    return Deep(width, inner, depth, recompute)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--grad-accum", type=int, default=8)
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--fused", type=lambda text: text == "True", default=False)
    parser.add_argument("--grad-checkpointing", type=lambda text: text == "True", default=None)
    args = parser.parse_args()
    torch.manual_seed(0)
    recompute = args.kind == "recompute" if args.grad_checkpointing is None else args.grad_checkpointing
    model = model_of(args.kind, recompute)
    speed = {"fused": True} if args.fused else {"foreach": False}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **speed)
    width = 384 if args.kind == "calls" else model.out.in_features
    loader = DataLoader(
        Clips(width, args.kind == "loader"), batch_size=args.batch_size, num_workers=args.num_workers
    )
    micro = 0
    while True:
        for x, y in loader:
            (nn.functional.cross_entropy(model(x), y) / args.grad_accum).backward()
            micro += 1
            if micro % args.grad_accum == 0:
                optimizer.step()
                optimizer.zero_grad()


if __name__ == "__main__":
    main()
