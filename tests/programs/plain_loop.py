"""A plain loop over a DataLoader: 12 x 1.

The dataset parses its text anew for every sample, so most of a step is waiting for data.
"""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FEATURES = 4000


class Readings(Dataset):
    """Sensor readings, one comma separated line each."""

    def __init__(self, count=96):
        rng = random.Random(0)
        self.lines = [",".join(f"{rng.gauss(0, 1):.4f}" for _ in range(FEATURES)) for _ in range(count)]

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, index):
        line = self.lines[index]
        x = torch.tensor([float(field) for field in line.split(",")])  # <- time goes here
        return x, x[:10].mean()


def main():
    torch.manual_seed(0)
    loader = DataLoader(Readings(), batch_size=12, shuffle=True)
    model = nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    criterion = nn.MSELoss()

    for epoch in range(5000):
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x).squeeze(1), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        if epoch % 20 == 0:
            print(f"epoch {epoch} loss {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
