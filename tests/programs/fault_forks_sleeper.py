"""Forks a helper that sleeps for ten minutes in a session of its own, then trains 6 x 1.

The helper's pid is printed as `helper PID`.
"""

import os
import time

import torch
import torch.nn.functional as F
from torch import nn

pid = os.fork()
if pid == 0:
    os.setsid()
    time.sleep(600)
    os._exit(0)
print("helper", pid, flush=True)

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(40, 400), nn.ReLU(), nn.Linear(400, 40))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _step in range(100_000):
    x = torch.randn(6, 40)
    loss = F.mse_loss(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
