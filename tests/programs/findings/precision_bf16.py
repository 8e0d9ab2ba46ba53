"""Mixed precision on a processor without native bfloat16, where it is slower than float32.

planted: forward and loss under autocast to bfloat16.  near: the autocast context is there but disabled, so everything
is float32 already.  fixed: no autocast at all.
"""

import argparse
import contextlib
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FEATURES, WIDTH, READINGS, BATCH = 64, 128, 24, 256


def build():
    layers = [nn.Linear(FEATURES, WIDTH), nn.GELU()]
    for _ in range(3):
        layers += [nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 10))


def precision(mode):
    if mode == "fixed":
        return contextlib.nullcontext()
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=mode == "planted")


def noisy(x):
    """The mean of several readings of x, each with noise of its own."""
    return x + 0.1 * torch.randn(READINGS, *x.shape).mean(0)


def endless(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()

    torch.manual_seed(0)
    data = TensorDataset(torch.randn(4096, FEATURES), torch.randint(0, 10, (4096,)))
    batches = endless(DataLoader(data, batch_size=BATCH, shuffle=True))
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    criterion = nn.CrossEntropyLoss()

    steps = args.steps or 100_000
    started = time.perf_counter()
    for step in range(steps):
        if step == 5:
            started = time.perf_counter()
        x, y = next(batches)
        x = noisy(x)
        with precision(args.mode):
            loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    if args.steps:
        print(f"seconds per step {(time.perf_counter() - started) / max(steps - 5, 1):.5f}")


if __name__ == "__main__":
    main()
