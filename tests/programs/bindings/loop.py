"""The training all of these share: what differs is where its two numbers come from."""

import torch
from torch import nn


def train(batch, accumulation, steps=100_000):
    torch.manual_seed(0)
    inputs, labels = torch.randn(512, 16), torch.randint(0, 5, (512,))
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    at = 0
    for _ in range(steps):
        for _ in range(accumulation):
            rows = slice(at, at + batch)
            at = (at + batch) % 512
            loss = nn.functional.cross_entropy(model(inputs[rows]), labels[rows])
            (loss / accumulation).backward()
        optimizer.step()
        optimizer.zero_grad()
