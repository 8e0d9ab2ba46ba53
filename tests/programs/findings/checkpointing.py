"""Activation checkpointing: every block of a small residual network is recomputed in the backward pass.

planted: checkpointing on, with memory to spare.  near: checkpointing on, but the process limits its own data segment
(RLIMIT_DATA) to a little above what it needs, so keeping the activations would not fit.  fixed: no checkpointing.
"""

import argparse
import resource
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDTH, DEPTH, BATCH, LENGTH = 32, 32, 6, 96
BUDGET_MB = 37  # checkpointed it takes 28, with its activations 42


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1)
        )

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Network(nn.Module):
    def __init__(self, checkpointed):
        super().__init__()
        self.checkpointed = checkpointed
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(x.mean(1))


def limit_memory(megabytes):
    """Allow the data segment to grow by so many more megabytes."""
    status = Path("/proc/self/status").read_text()
    used = int(status.split("VmData:")[1].split()[0]) * 1024
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (used + megabytes * 2**20, hard))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()

    torch.manual_seed(0)
    inputs = torch.randn(512, LENGTH, WIDTH)
    labels = torch.randint(0, 10, (512,))
    model = Network(checkpointed=args.mode != "fixed")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    if args.mode == "near":
        model(inputs[:1]).sum().backward()  # libraries take their own memory on first use
        limit_memory(BUDGET_MB)

    steps = args.steps or 100_000
    started = time.perf_counter()
    for step in range(steps):
        if step == 5:
            started = time.perf_counter()
        chosen = torch.randint(0, len(inputs), (BATCH,))
        loss = nn.functional.cross_entropy(model(inputs[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    if args.steps:
        print(f"seconds per step {(time.perf_counter() - started) / max(steps - 5, 1):.5f}")


if __name__ == "__main__":
    main()
