"""torch.save of model and optimizer every fifth step, 12 MB each time: 12 x 2."""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUM, SAVE_EVERY = 2, 5


class Recommender(nn.Module):
    """Item vectors made elsewhere and kept in the checkpoint, a small tower on top."""

    def __init__(self, items=20_000, dim=150):
        super().__init__()
        self.register_buffer("items", torch.randn(items, dim))
        self.tower = nn.Sequential(nn.Linear(dim, 768), nn.ReLU(), nn.Linear(768, 1))

    def forward(self, ids):
        return self.tower(self.items[ids]).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("checkpoints"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    data = TensorDataset(torch.randint(0, 20_000, (960,)), torch.randint(0, 2, (960,)).float())
    loader = DataLoader(data, batch_size=12, shuffle=True)
    model = Recommender()
    optimizer = torch.optim.Adam(model.tower.parameters(), lr=1e-3)
    step = 0
    for _epoch in range(3000):
        for i, (ids, clicked) in enumerate(loader):
            loss = F.binary_cross_entropy_with_logits(model(ids), clicked)
            (loss / ACCUM).backward()
            if (i + 1) % ACCUM == 0:
                optimizer.step()
                optimizer.zero_grad()
                step += 1
                if step % SAVE_EVERY == 0:
                    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                    torch.save({**state, "step": step}, out / "last.pt")


if __name__ == "__main__":
    main()
