"""Prints 5 MB to stdout, half of it before the first step, and a line to stderr a step: 6 x 1."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

LINE = "x" * 99 + "\n"

torch.manual_seed(0)
sys.stdout.write(LINE * 25_000)
model = nn.Sequential(nn.Linear(40, 400), nn.ReLU(), nn.Linear(400, 40))
print(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(100_000):
    x = torch.randn(6, 40)
    loss = F.mse_loss(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.4f}", file=sys.stderr)
    if step < 25:
        sys.stdout.write(LINE * 1000)
