"""A dozen DataLoader workers.

planted: the rows are in memory and cost nothing to fetch, yet twelve workers are started in every epoch of 40 steps.
near: twelve workers as well, kept over the epochs, and needed: every row waits 25 ms for storage.
fixed: the rows in memory, without workers.
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WARMUP = 5
BATCH = 8
FEATURES = 256


class Rows(Dataset):
    def __init__(self, count, latency):
        self.count = count
        self.latency = latency
        self.x = torch.randn(320, FEATURES)
        self.y = self.x[:, :8].mean(dim=1, keepdim=True)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.latency:
            time.sleep(self.latency)
        row = index % len(self.x)
        return self.x[row], self.y[row]


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int, default=100_000)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(0)
    near = args.mode == "near"
    loader = DataLoader(
        Rows(count=BATCH * (2000 if near else 40), latency=0.025 if near else 0.0),
        batch_size=BATCH,
        shuffle=True,
        num_workers=0 if args.mode == "fixed" else 12,
        persistent_workers=near,
    )
    model = nn.Sequential(
        nn.Linear(FEATURES, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.MSELoss()

    step = 0
    started = time.perf_counter()
    while True:
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 500 == 0:
                print(f"step {step} loss {loss.item():.4f}")
            if step <= WARMUP:
                started = time.perf_counter()
            if step == args.steps:
                print(f"seconds per step {(time.perf_counter() - started) / max(step - WARMUP, 1):.5f}")
                return


if __name__ == "__main__":
    main()
