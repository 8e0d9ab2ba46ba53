"""The training of a package, run as `python -m pkg.train`: 4 x 7, relative imports."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from .data import price_loader


@dataclass
class Config:
    batch_size: int = 4
    accumulate: int = 7
    hidden: int = 256
    lr: float = 1e-3
    epochs: int = 5000


def main(cfg):
    torch.manual_seed(0)
    loader = price_loader(cfg.batch_size)
    model = nn.Sequential(
        nn.Linear(30, cfg.hidden),
        nn.ReLU(),
        nn.Linear(cfg.hidden, cfg.hidden),
        nn.ReLU(),
        nn.Linear(cfg.hidden, 1),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for _epoch in range(cfg.epochs):
        for i, (x, y) in enumerate(loader, start=1):
            loss = F.mse_loss(model(x).squeeze(1), y)
            (loss / cfg.accumulate).backward()
            if i % cfg.accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()


if __name__ == "__main__":
    main(Config())
