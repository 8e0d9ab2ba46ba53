"""More threads than cores.

planted: 16 threads on a machine with 2 cores, on operations of medium size.  near: 1 thread on operations so small
that threads do not matter.  fixed: the work of planted with 1 thread.
"""

import argparse
import time

import torch
from torch import nn

FEATURES = 64
THREADS = {"planted": 16, "near": 1, "fixed": 1}


class Network(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.first = nn.Linear(FEATURES, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = x + 0.1 * torch.tanh(block(x))
        return self.head(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()

    torch.set_num_threads(THREADS[args.mode])
    torch.manual_seed(0)
    near = args.mode == "near"
    batch = 16 if near else 256
    inputs = torch.randn(4096, FEATURES)
    targets = inputs[:, :8].sum(1, keepdim=True)
    model = Network(width=16, depth=100) if near else Network(width=256, depth=6)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    criterion = nn.MSELoss()

    steps = args.steps or 100_000
    started = time.perf_counter()
    for step in range(steps):
        if step == 5:
            started = time.perf_counter()
        chosen = torch.randint(0, len(inputs), (batch,))
        loss = criterion(model(inputs[chosen]), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    if args.steps:
        print(f"seconds per step {(time.perf_counter() - started) / max(steps - 5, 1):.5f}")


if __name__ == "__main__":
    main()
