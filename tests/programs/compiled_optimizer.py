"""The optimizer's step under torch.compile, as in the compiled optimizer recipe: 9 x 3."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUM = 3

torch.manual_seed(0)
x = torch.randn(810, 64)
loader = DataLoader(TensorDataset(x, x.abs().sum(1)), batch_size=9, shuffle=True)
model = nn.Sequential(nn.Linear(64, 384), nn.ReLU(), nn.Linear(384, 384), nn.ReLU())
model.append(nn.Linear(384, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


@torch.compile(fullgraph=False, backend="eager")
def optimizer_step():
    optimizer.step()


for _epoch in range(3000):
    for i, (features, target) in enumerate(loader):
        loss = F.mse_loss(model(features).squeeze(1), target) / ACCUM
        loss.backward()
        if (i + 1) % ACCUM == 0:
            optimizer_step()
            optimizer.zero_grad(set_to_none=False)
