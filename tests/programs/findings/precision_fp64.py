"""Double precision where single would do.

planted: model and data in float64.  near: float32 all along, but for one tiny reduction of the loss in float64.
fixed: float32.
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FEATURES, WIDTH, BATCH = 256, 512, 192


def build():
    return nn.Sequential(
        nn.Linear(FEATURES, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, 1),
    )


def endless(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()

    torch.manual_seed(0)
    inputs = torch.randn(4096, FEATURES)
    targets = inputs[:, :8].sum(1, keepdim=True)
    model = build()
    if args.mode == "planted":
        inputs, targets, model = inputs.double(), targets.double(), model.double()
    batches = endless(DataLoader(TensorDataset(inputs, targets), batch_size=BATCH, shuffle=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    steps = args.steps or 100_000
    started = time.perf_counter()
    for step in range(steps):
        if step == 5:
            started = time.perf_counter()
        x, y = next(batches)
        errors = (model(x) - y).square()
        loss = errors.mean(dtype=torch.float64) if args.mode == "near" else errors.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    if args.steps:
        print(f"seconds per step {(time.perf_counter() - started) / max(steps - 5, 1):.5f}")


if __name__ == "__main__":
    main()
