"""Checkpoints written far too often.

planted: the state of model and optimizer is saved every 2 steps, about half of the run.  near: every 20 steps a tiny
state is saved, less than 2 % of the run even where a file takes 5 ms.  fixed: the whole state every 500 steps.
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FEATURES, WIDTH, BATCH = 256, 896, 96


def build():
    return nn.Sequential(
        nn.Linear(FEATURES, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, 10),
    )


def endless(loader):
    while True:
        yield from loader


def train(args, folder):
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(4096, FEATURES), torch.randint(0, 10, (4096,)))
    batches = endless(DataLoader(data, batch_size=BATCH, shuffle=True))
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    criterion = nn.CrossEntropyLoss()
    every = {"planted": 2, "near": 20, "fixed": 500}[args.mode]

    steps = args.steps or 100_000
    started = time.perf_counter()
    for step in range(steps):
        if step == 5:
            started = time.perf_counter()
        x, y = next(batches)
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % every == 0:
            state = {"step": step, "loss": loss.detach()}
            if args.mode != "near":
                state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, folder / "checkpoint.pt")
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    if args.steps:
        print(f"seconds per step {(time.perf_counter() - started) / max(steps - 5, 1):.5f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        train(args, Path(folder))


if __name__ == "__main__":
    main()
