"""Batches from a thread through a queue.Queue: 9 x 2.

The thread is slower than the model, so the loop mostly waits in `get`.
"""

import queue
import threading
import time

import torch
import torch.nn.functional as F
from torch import nn

BATCH_SIZE, ACCUM = 9, 2


def produce(out):
    generator = torch.Generator().manual_seed(0)
    while True:
        time.sleep(0.008)  # one request to the feature store
        x = torch.randn(BATCH_SIZE, 72, generator=generator)
        out.put((x, x.mean(dim=1)))


def train(batches, steps=100_000):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(72, 128), nn.ReLU(), nn.Linear(128, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _step in range(steps):
        optimizer.zero_grad()
        for _ in range(ACCUM):
            x, y = batches.get()  # <- time goes here
            loss = F.mse_loss(model(x).squeeze(1), y) / ACCUM
            loss.backward()
        optimizer.step()


def main():
    batches = queue.Queue(maxsize=4)
    threading.Thread(target=produce, args=(batches,), daemon=True).start()
    train(batches)


if __name__ == "__main__":
    main()
