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

WIDTH, BATCH = 512, 64


def build():
    layers = [nn.Linear(256, WIDTH), nn.GELU()]
    for _ in range(3):
        layers += [nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 10))


def precision(mode):
    if mode == "fixed":
        return contextlib.nullcontext()
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=mode == "planted")


def endless(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()

    torch.manual_seed(0)
    data = TensorDataset(torch.randn(2048, 256), torch.randint(0, 10, (2048,)))
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
