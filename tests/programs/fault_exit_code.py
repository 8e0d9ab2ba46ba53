"""Checks its settings, complains on stderr and leaves with exit code 7 before any step."""

import sys

import torch
from torch import nn


def main():
    model = nn.Linear(8, 2)
    if not torch.cuda.is_available() or torch.cuda.device_count() < 64:
        print("error: this configuration needs 64 GPUs", file=sys.stderr)
        sys.exit(7)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.step()


if __name__ == "__main__":
    main()
