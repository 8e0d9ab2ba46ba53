"""Printing that takes a third of a step or more.

planted: every step prints the first gradient values of every parameter, one flushed line each.  near: one short line
per step.  fixed: the same lines as planted, every 100 steps.
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FEATURES, WIDTH, DEPTH, BATCH, SHOWN = 64, 128, 100, 24, 48


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(FEATURES, WIDTH)
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = x + 0.1 * torch.relu(block(x))
        return self.head(x)


def print_gradients(step, model):
    for name, parameter in model.named_parameters():
        print(step, name, parameter.grad.view(-1)[:SHOWN].tolist(), flush=True)


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
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    criterion = nn.CrossEntropyLoss()
    every = 100 if args.mode == "fixed" else 1

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
        if args.mode == "near":
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        elif step % every == 0:
            print_gradients(step, model)
    if args.steps:
        print(f"seconds per step {(time.perf_counter() - started) / max(steps - 5, 1):.5f}")


if __name__ == "__main__":
    main()
