import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Accumulating:
    def __init__(self, optimizer, grad_accum):
        self.optimizer, self.grad_accum, self.seen = optimizer, grad_accum, 0

    def take(self, loss):
        (loss / self.grad_accum).backward()
        self.seen += 1
        if self.seen % self.grad_accum == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()


torch.manual_seed(0)
inputs = torch.randn(512, 16)
loader = DataLoader(TensorDataset(inputs, torch.randint(0, 5, (512,))), 2, True)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 5))
accumulating = Accumulating(torch.optim.AdamW(model.parameters(), lr=1e-3), 8)
for _ in range(100_000):
    for x, y in loader:
        accumulating.take(nn.functional.cross_entropy(model(x), y))
