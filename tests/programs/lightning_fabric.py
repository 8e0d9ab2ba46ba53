"""Lightning Fabric, accumulation through no_backward_sync: 11 x 3."""

import torch
import torch.nn.functional as F
from lightning.fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATE = 3


def main():
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    fabric.seed_everything(0)

    images = torch.randn(660, 1, 20, 20)
    data = TensorDataset(images, torch.randint(0, 10, (660,)))
    loader = fabric.setup_dataloaders(DataLoader(data, batch_size=11, shuffle=True))
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(972, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    model, optimizer = fabric.setup(model, optimizer)

    for _epoch in range(3000):
        for i, (x, y) in enumerate(loader):
            is_accumulating = (i + 1) % ACCUMULATE != 0
            with fabric.no_backward_sync(model, enabled=is_accumulating):
                loss = F.cross_entropy(model(x), y)
                fabric.backward(loss / ACCUMULATE)
            if not is_accumulating:
                fabric.clip_gradients(model, optimizer, max_norm=1.0)
                optimizer.step()
                optimizer.zero_grad()


if __name__ == "__main__":
    main()
