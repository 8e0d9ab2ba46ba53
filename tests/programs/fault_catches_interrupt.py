"""Catches KeyboardInterrupt, saves `interrupted.pt` and leaves with exit code 0: 6 x 1."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(40, 400), nn.ReLU(), nn.Linear(400, 40))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

try:
    for _step in range(100_000):
        x = torch.randn(6, 40)
        loss = F.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
except KeyboardInterrupt:
    print("interrupted, saving")
    torch.save(model.state_dict(), "interrupted.pt")
