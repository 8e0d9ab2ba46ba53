"""Records on slow storage, read by DataLoader workers.

planted: one worker, which waits 3 ms for every record and cannot keep up with the training.
near: one worker and the same storage, but a model so wide that the next batch is always there.
fixed: four workers, whose waits overlap.
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WARMUP = 5
BATCH = 16
FEATURES = 512


class StoredRecords(Dataset):
    def __init__(self, count, latency):
        self.latency = latency
        self.x = torch.randn(512, FEATURES)
        self.y = self.x[:, :8].mean(dim=1, keepdim=True)
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
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
    loader = DataLoader(
        StoredRecords(count=BATCH * 2000, latency=0.003),
        batch_size=BATCH,
        shuffle=True,
        num_workers=4 if args.mode == "fixed" else 1,
        persistent_workers=True,
    )
    width = 4096 if args.mode == "near" else 1024
    model = nn.Sequential(
        nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
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
