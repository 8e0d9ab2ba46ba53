"""Two losses on one forward, each with its own backward and retain_graph: 9 x 1."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(60, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU())
        self.kind = nn.Linear(512, 6)
        self.size = nn.Linear(512, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.kind(h), self.size(h).squeeze(1)


def main():
    torch.manual_seed(0)
    x = torch.randn(900, 60)
    data = TensorDataset(x, x[:, :6].argmax(1), x.norm(dim=1))
    loader = DataLoader(data, batch_size=9, shuffle=True)
    model = TwoHeads()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _epoch in range(3000):
        for features, kind, size in loader:
            optimizer.zero_grad()
            kind_logits, size_pred = model(features)
            kind_loss = F.cross_entropy(kind_logits, kind)
            size_loss = F.mse_loss(size_pred, size)
            kind_loss.backward(retain_graph=True)
            size_loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
