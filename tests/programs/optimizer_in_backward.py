"""The optimizer step inside the backward, one optimizer a parameter to save memory: 13 x 1."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(650, 80)
loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=13, shuffle=True)
model = nn.Sequential(nn.Linear(80, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 2))

optimizer_dict = {p: torch.optim.Adam([p], lr=1e-4) for p in model.parameters()}


def optimizer_hook(parameter):
    optimizer_dict[parameter].step()
    optimizer_dict[parameter].zero_grad()


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(optimizer_hook)

for _epoch in range(3000):
    for features, labels in loader:
        loss = F.cross_entropy(model(features), labels)
        loss.backward()
