"""An optimizer that walks over hundreds of small parameters one operation at a time.

planted: Adam(foreach=False, fused=False) over some 480 tensors takes most of a step.  near: the same optimizer over a
few tensors beside a big forward and backward pass, less than 5 % of a step.  fixed: Adam(fused=True).
"""

import argparse
import time

import torch
from torch import nn

FEATURES = 64


class Branches(nn.Module):
    """Many small experts, each with its own scale and shift."""

    def __init__(self, count, width):
        super().__init__()
        self.first = nn.Linear(FEATURES, width)
        self.scales = nn.ParameterList(torch.ones(width) for _ in range(count))
        self.shifts = nn.ParameterList(torch.zeros(width) for _ in range(count))
        self.hidden = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        x = self.first(x)
        for scale, shift in zip(self.scales, self.shifts, strict=True):
            x = torch.addcmul(shift, x, scale)
        return self.head(self.hidden(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()

    torch.manual_seed(0)
    near = args.mode == "near"
    inputs = torch.randn(4096, FEATURES)
    targets = inputs[:, :8].sum(1, keepdim=True)
    batch = 2560 if near else 32
    model = Branches(count=2, width=256) if near else Branches(count=240, width=32)
    if args.mode == "fixed":
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, foreach=False, fused=False)
    criterion = nn.MSELoss()

    steps = args.steps or 100_000
    started = time.perf_counter()
    for step in range(steps):
        if step == 5:
            started = time.perf_counter()
        chosen = torch.randint(0, len(inputs), (batch,))
        loss = criterion(model(inputs[chosen]), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    if args.steps:
        print(f"seconds per step {(time.perf_counter() - started) / max(steps - 5, 1):.5f}")


if __name__ == "__main__":
    main()
