"""One thread where two would be faster.

planted: 1 thread on large matrix products, with a second core free.  near: 1 thread on a deep model so tiny that a
second thread does not help.  fixed: the work of planted with 2 threads.
"""

import argparse
import time

import torch
from torch import nn


def build(width, depth):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()

    torch.set_num_threads(2 if args.mode == "fixed" else 1)
    torch.manual_seed(0)
    width, depth, batch = (16, 100, 16) if args.mode == "near" else (768, 3, 384)
    inputs = torch.randn(4096, width)
    targets = inputs[:, :8].sum(1, keepdim=True)
    model = build(width, depth)
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
