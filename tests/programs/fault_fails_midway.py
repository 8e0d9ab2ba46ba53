"""Trains 3 x 1 and dies of an IndexError in its 12th step, exit code 1."""

import torch
from torch import nn

torch.manual_seed(0)
table = nn.Embedding(100, 32)
head = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 1))
optimizer = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=0.01)
for step in range(1, 1000):
    ids = torch.randint(0, 100, (3,))
    if step == 12:
        ids[0] = 100
    loss = head(table(ids)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
