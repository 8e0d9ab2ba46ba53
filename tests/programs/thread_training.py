"""Training in a thread of its own while the main thread watches over it: 7 x 3."""

import threading
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Worker(threading.Thread):
    def __init__(self, accum=3):
        super().__init__(name="trainer", daemon=True)
        self.accum = accum
        self.steps = 0
        self.loss = float("nan")

    def run(self):
        torch.manual_seed(0)
        x = torch.randn(630, 56)
        loader = DataLoader(TensorDataset(x, x.prod(1).sign()), batch_size=7, shuffle=True)
        model = nn.Sequential(nn.Linear(56, 400), nn.Tanh(), nn.Linear(400, 400), nn.Tanh())
        model.append(nn.Linear(400, 1))
        optimizer = torch.optim.NAdam(model.parameters(), lr=1e-3)
        while self.steps < 100_000:
            for i, (features, target) in enumerate(loader):
                loss = F.soft_margin_loss(model(features).squeeze(1), target)
                (loss / self.accum).backward()
                if (i + 1) % self.accum == 0:
                    optimizer.step()
                    optimizer.zero_grad()
                    self.steps += 1
                    self.loss = loss.item()


def main():
    worker = Worker()
    worker.start()
    while worker.is_alive():
        time.sleep(5)
        print(f"step {worker.steps} loss {worker.loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
