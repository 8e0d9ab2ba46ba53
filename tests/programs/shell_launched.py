"""Started by run.sh with --batch_size 4 --effective_batch 20: 4 x 5, the factor is derived."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--effective_batch", type=int, required=True)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    assert args.effective_batch % args.batch_size == 0
    accum = args.effective_batch // args.batch_size

    torch.manual_seed(0)
    spectra = torch.randn(800, 1, 200)
    data = TensorDataset(spectra, spectra.amax(dim=(1, 2)))
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)
    model = nn.Sequential(
        nn.Conv1d(1, 16, 9, padding=4),
        nn.ReLU(),
        nn.Conv1d(16, 16, 9, stride=4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 48, 1),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for _epoch in range(3000):
        for i, (x, y) in enumerate(loader):
            (F.l1_loss(model(x).squeeze(1), y) / accum).backward()
            if (i + 1) % accum == 0:
                optimizer.step()
                optimizer.zero_grad()


if __name__ == "__main__":
    main()
