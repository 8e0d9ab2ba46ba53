"""No optimizer: `p.data.add_(p.grad, alpha=-lr)` over a module's parameters: 22 x 1."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

lr = 0.05

torch.manual_seed(1111)
x = torch.randn(1100, 50)
y = (x[:, :5].sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=22, shuffle=True)
model = nn.Sequential(nn.Linear(50, 640), nn.Tanh(), nn.Linear(640, 640), nn.Tanh())
model.append(nn.Linear(640, 2))
criterion = nn.CrossEntropyLoss()


def train(epoch):
    model.train()
    total_loss = 0.0
    for data, targets in loader:
        model.zero_grad()
        loss = criterion(model(data), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        total_loss += loss.item()
    if epoch % 50 == 1:
        print(f"| epoch {epoch:3d} | loss {total_loss / len(loader):5.3f}")


for epoch in range(1, 5001):
    train(epoch)
