"""Full-batch LBFGS with a closure: 40 x 1, five or six evaluations of the closure a step."""

import math

import torch
from torch import nn

torch.manual_seed(0)
t = torch.linspace(0, 4 * math.pi, 40).unsqueeze(1)
harmonics = torch.arange(1, 9)
inputs = torch.cat([(t * harmonics).sin(), (t * harmonics).cos()], dim=1)
target = torch.randn(40, 24)

model = nn.Sequential(nn.Linear(16, 192), nn.Tanh(), nn.Linear(192, 192), nn.Tanh(), nn.Linear(192, 24))
criterion = nn.MSELoss()
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = criterion(model(inputs), target)
    loss.backward()
    return loss


for step in range(100_000):
    if step % 50 == 0:  # the next series
        target = torch.randn(40, 24)
    loss = optimizer.step(closure)
    if step % 1000 == 0:
        print(f"step {step} loss {loss.item():.5f}")
