"""Two forked DataLoader workers and a slow augmentation: 10 x 2; the step waits for the workers."""

import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

ACCUM = 2


class Clips(Dataset):
    def __len__(self):
        return 2000

    def __getitem__(self, index):
        time.sleep(0.002)  # decoding
        generator = torch.Generator().manual_seed(index)
        return torch.randn(64, generator=generator), index % 7


def main():
    torch.manual_seed(0)
    loader = DataLoader(
        Clips(),
        batch_size=10,
        shuffle=True,
        num_workers=2,
        persistent_workers=True,
        multiprocessing_context="fork",
    )
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 7))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _epoch in range(1000):
        for i, (x, y) in enumerate(loader):
            (F.cross_entropy(model(x), y) / ACCUM).backward()
            if (i + 1) % ACCUM == 0:
                optimizer.step()
                optimizer.zero_grad()


if __name__ == "__main__":
    main()
