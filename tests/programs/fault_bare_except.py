"""A bare except around each step swallows everything, SystemExit included: 6 x 1."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(40, 400), nn.ReLU(), nn.Linear(400, 40))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

failed = 0
for step in range(100_000):
    try:
        x = torch.randn(6, 40)
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
    except:  # noqa: E722
        failed += 1
        print(f"step {step} failed ({failed} so far), going on")
