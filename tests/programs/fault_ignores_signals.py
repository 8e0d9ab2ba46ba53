"""Ignores SIGTERM and SIGINT, as a run that must not lose its slot does: 6 x 1, ten minutes."""

import signal
import time

import torch
import torch.nn.functional as F
from torch import nn

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(40, 400), nn.ReLU(), nn.Linear(400, 40))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
end = time.monotonic() + 600
while time.monotonic() < end:
    x = torch.randn(6, 40)
    loss = F.mse_loss(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
