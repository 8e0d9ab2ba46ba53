"""Training that is nothing but large float32 matrix products.

Only mode planted: one weight, one constant input, and next to no work outside of the two products of a step.
"""

import argparse
import time

import torch
from torch import nn

SIZE = 1536


class Product(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(SIZE, SIZE) / SIZE**0.5)

    def forward(self, x):
        return x @ self.weight


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted"])
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()

    torch.manual_seed(0)
    x = torch.randn(SIZE, SIZE)
    model = Product()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, fused=True)

    steps = args.steps or 100_000
    started = time.perf_counter()
    for step in range(steps):
        if step == 5:
            started = time.perf_counter()
        loss = model(x).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    if args.steps:
        print(f"seconds per step {(time.perf_counter() - started) / max(steps - 5, 1):.5f}")


if __name__ == "__main__":
    main()
