"""Calls os._exit(0) after 30 steps, so no exit handler runs: 6 x 1."""

import os

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(40, 400), nn.ReLU(), nn.Linear(400, 40))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _step in range(30):
    x = torch.randn(6, 40)
    loss = F.mse_loss(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("30 steps", flush=True)
os._exit(0)
