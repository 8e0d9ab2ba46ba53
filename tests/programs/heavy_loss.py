"""A loss in plain Python (soft-DTW, cell by cell): 6 x 2; loss and its backward are the step."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUM, GAMMA = 2, 0.1


def soft_dtw(a, b):
    cost = (a.unsqueeze(2) - b.unsqueeze(1)).square()
    batch, n, m = cost.shape
    inf = torch.full((batch,), 1e6)
    previous = [torch.zeros(batch)] + [inf] * m
    for i in range(n):
        row = [inf]
        for j in range(m):
            options = torch.stack([previous[j], previous[j + 1], row[j]])
            softmin = -GAMMA * torch.logsumexp(-options / GAMMA, dim=0)  # <- time goes here
            row.append(cost[:, i, j] + softmin)
        previous = row
    return previous[-1].mean()


class SoftDTWLoss(nn.Module):
    def forward(self, prediction, target):
        return soft_dtw(prediction, target)


def main():
    torch.manual_seed(0)
    series = torch.randn(480, 18).cumsum(1)
    loader = DataLoader(TensorDataset(series[:, :10], series[:, 10:]), batch_size=6, shuffle=True)
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 8))
    criterion = SoftDTWLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _epoch in range(3000):
        for i, (past, future) in enumerate(loader):
            loss = criterion(model(past), future) / ACCUM
            loss.backward()
            if (i + 1) % ACCUM == 0:
                optimizer.step()
                optimizer.zero_grad()


if __name__ == "__main__":
    main()
