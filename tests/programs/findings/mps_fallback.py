"""An operator that is not on MPS and runs on the CPU instead.

planted: the first step emits the warning PyTorch prints on such a fallback, word for word.  near: a trainer that
merely sets PYTORCH_ENABLE_MPS_FALLBACK=1, without any fallback.  fixed: neither.
"""

import argparse
import os
import time
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FEATURES, WIDTH, BATCH = 64, 768, 192
FALLBACK = (
    "The operator 'aten::_cdist_forward' is not currently supported on the MPS backend and will fall back to run on "
    "the CPU. This may have performance implications."
)


class Prototypes(nn.Module):
    """Classifies by the distance to one learnt point per class."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)
        )
        self.points = nn.Parameter(torch.randn(10, WIDTH))

    def forward(self, x):
        return -torch.cdist(self.body(x), self.points)


def endless(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()
    if args.mode == "near":
        os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] = "1"

    torch.manual_seed(0)
    data = TensorDataset(torch.randn(4096, FEATURES), torch.randint(0, 10, (4096,)))
    batches = endless(DataLoader(data, batch_size=BATCH, shuffle=True))
    model = Prototypes()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()

    steps = args.steps or 100_000
    started = time.perf_counter()
    for step in range(steps):
        if step == 5:
            started = time.perf_counter()
        x, y = next(batches)
        if args.mode == "planted" and step == 0:
            warnings.warn(FALLBACK, UserWarning, stacklevel=1)
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    if args.steps:
        print(f"seconds per step {(time.perf_counter() - started) / max(steps - 5, 1):.5f}")


if __name__ == "__main__":
    main()
