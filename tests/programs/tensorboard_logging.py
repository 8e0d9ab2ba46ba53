"""Histograms of all weights to TensorBoard in every step, dearer than training: 11 x 2."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter

ACCUM = 2


def main():
    torch.manual_seed(0)
    x = torch.randn(880, 32)
    loader = DataLoader(TensorDataset(x, x.sin().sum(1)), batch_size=11, shuffle=True)
    model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
    model.append(nn.Linear(128, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    writer = SummaryWriter("runs/histograms")
    step = 0
    for _epoch in range(3000):
        for i, (features, target) in enumerate(loader):
            loss = F.mse_loss(model(features).squeeze(1), target)
            (loss / ACCUM).backward()
            if (i + 1) % ACCUM == 0:
                optimizer.step()
                step += 1
                writer.add_scalar("loss", loss.item(), step)
                for name, p in model.named_parameters():
                    writer.add_histogram(f"weights/{name}", p, step)
                    writer.add_histogram(f"grads/{name}", p.grad, step)
                optimizer.zero_grad()


if __name__ == "__main__":
    main()
