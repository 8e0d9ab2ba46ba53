"""An image classifier with gradient accumulation, its settings at the top of the file. Modes:

batch_norm     BatchNorm in training mode
frozen         the same, frozen
group_norm     GroupNorm
dropout        plain dropout
drop_path      whole branches dropped, by a layer of its own
numpy, random, torch   random augmentation in workers, drawn with that library
shuffled       a shuffled loader of persistent workers
"""

import random
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH_SIZE = 4
ACCUMULATION = 4
MODE = sys.argv[1]


class Images(Dataset):
    def __init__(self, count=128):
        generator = torch.Generator().manual_seed(1)
        self.images = torch.randn(count, 3, 12, 12, generator=generator)
        self.labels = torch.randint(0, 5, (count,), generator=generator)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        if MODE == "numpy":
            image = image + float(np.random.randn())
        elif MODE == "random":
            image = image.flip(2) if random.random() < 0.5 else image * random.random()
        elif MODE == "torch":
            image = image + torch.randn(3, 12, 12) * 0.3
        return image, self.labels[index]


class DropPath(nn.Module):
    def forward(self, x):
        if not self.training:
            return x
        return x * torch.empty(x.shape[0], 1, 1, 1).bernoulli_(0.7) / 0.7


def build():
    norm = nn.GroupNorm(4, 16)
    if MODE in ("batch_norm", "frozen"):
        norm = nn.BatchNorm2d(16)
    extra = {"dropout": nn.Dropout(0.3), "drop_path": DropPath()}.get(MODE, nn.Identity())
    return nn.Sequential(
        nn.Conv2d(3, 16, 3), norm, nn.ReLU(), extra, nn.Conv2d(16, 16, 3), nn.Flatten(), nn.Linear(1024, 5)
    )


def main():
    torch.manual_seed(0)
    model = build()
    workers = 2 if MODE in ("numpy", "random", "torch", "shuffled") else 0
    loader = DataLoader(
        Images(),
        batch_size=BATCH_SIZE,
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        drop_last=True,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for _ in range(100):
        model.train()
        if MODE == "frozen":
            model[1].eval()
        for number, (images, labels) in enumerate(loader, 1):
            loss = criterion(model(images), labels) / ACCUMULATION
            loss.backward()
            if number % ACCUMULATION == 0:
                optimizer.step()
                optimizer.zero_grad()


if __name__ == "__main__":
    main()
