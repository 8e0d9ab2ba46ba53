"""A sensible trainer with nothing to find.

Only mode planted: data in memory, large batches through a wide network, few parameter tensors, no evaluation, one
line of output every 50 steps.
"""

import argparse
import time

import torch
from torch import nn

WIDTH, BATCH = 1024, 256


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted"])
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()

    torch.manual_seed(0)
    inputs = torch.randn(8192, WIDTH)
    targets = inputs @ torch.randn(WIDTH, WIDTH) / WIDTH**0.5
    model = nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, fused=True)
    criterion = nn.MSELoss()

    steps = args.steps or 100_000
    started = time.perf_counter()
    for step in range(steps):
        if step == 5:
            started = time.perf_counter()
        chosen = torch.randint(0, len(inputs), (BATCH,))
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
