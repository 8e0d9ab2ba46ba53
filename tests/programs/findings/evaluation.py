"""Evaluation that eats half of the run.

planted: the whole validation set every 5 optimizer steps.  near: one tiny batch every 5 steps, about 1 % of the run.
fixed: the whole validation set every 500 steps.
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

FEATURES, WIDTH, BATCH = 128, 512, 128


def build():
    layers = [nn.Linear(FEATURES, WIDTH), nn.ReLU()]
    for _ in range(3):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 10))


def examples(count):
    inputs = torch.randn(count, FEATURES)
    return TensorDataset(inputs, inputs[:, :10].argmax(1))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = total = 0
    for x, y in loader:
        right += (model(x).argmax(1) == y).sum().item()
        total += len(y)
    model.train()
    return right / total


def endless(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()

    torch.manual_seed(0)
    batches = endless(DataLoader(examples(4096), batch_size=BATCH, shuffle=True))
    validation = examples(16 * BATCH)
    if args.mode == "near":
        validation = Subset(validation, range(8))
    validation_loader = DataLoader(validation, batch_size=BATCH)
    every = 500 if args.mode == "fixed" else 5
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    criterion = nn.CrossEntropyLoss()

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
            accuracy = evaluate(model, validation_loader)
            if (step + 1) % 50 == 0:
                print(f"step {step} accuracy {accuracy:.3f}")
    if args.steps:
        print(f"seconds per step {(time.perf_counter() - started) / max(steps - 5, 1):.5f}")


if __name__ == "__main__":
    main()
