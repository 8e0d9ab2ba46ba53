"""A small convolutional network on images. Says at its end how its weights lie in memory, and its last loss."""

import argparse
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--exit", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Flatten()
    )
    head = nn.Linear(16 * 16 * 16, 10)
    parameters = [*model.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    images, labels = torch.randn(256, 3, 16, 16), torch.arange(256) % 10
    step = 0
    while step < args.steps:
        for x, y in DataLoader(TensorDataset(images, labels), batch_size=args.batch_size, shuffle=True):
            loss = nn.functional.cross_entropy(head(model(x)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step == args.steps:
                break
    last = model[0].weight.is_contiguous(memory_format=torch.channels_last)
    print(f"channels last {last} loss {loss.item():.8f}")
    sys.exit(args.exit)


if __name__ == "__main__":
    main()
