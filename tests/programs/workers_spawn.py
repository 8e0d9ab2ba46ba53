"""Two spawned DataLoader workers, each importing torch anew: 8 x 3."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

ACCUM = 3


class Waves(Dataset):
    """Noisy sine waves, made on demand."""

    def __init__(self, count=2400, length=256):
        self.count, self.length = count, length

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        frequency = 1 + index % 12
        t = torch.linspace(0, 6.283, self.length)
        noise = 0.1 * torch.randn(self.length, generator=generator)
        return (frequency * t).sin() + noise, frequency - 1


def main():
    torch.manual_seed(0)
    loader = DataLoader(
        Waves(),
        batch_size=8,
        shuffle=True,
        num_workers=2,
        persistent_workers=True,
        multiprocessing_context="spawn",
    )
    model = nn.Sequential(nn.Linear(256, 320), nn.ReLU(), nn.Linear(320, 320), nn.ReLU())
    model.append(nn.Linear(320, 12))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _epoch in range(1000):
        for i, (wave, label) in enumerate(loader):
            (F.cross_entropy(model(wave), label) / ACCUM).backward()
            if (i + 1) % ACCUM == 0:
                optimizer.step()
                optimizer.zero_grad()


if __name__ == "__main__":
    main()
