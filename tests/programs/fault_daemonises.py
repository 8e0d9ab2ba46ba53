"""Makes itself a daemon (double fork, setsid) and trains 6 x 1 there; the first process leaves.

The daemon's pid is printed as `daemon PID`; it ends by itself after ten minutes.
"""

import os
import time


def daemonise():
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    print("daemon", os.getpid(), flush=True)


def train(seconds=600):
    import torch
    import torch.nn.functional as F
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 400), nn.ReLU(), nn.Linear(400, 40))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        x = torch.randn(6, 40)
        loss = F.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    daemonise()
    train()
