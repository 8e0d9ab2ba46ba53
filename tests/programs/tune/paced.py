"""Optimizer steps that take a given time of computing, until killed or for so many steps."""

import argparse
import time

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--milliseconds", type=float, default=20)
    parser.add_argument("--steps", type=int, default=10**9)
    args = parser.parse_args()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(args.steps):
        until = time.process_time() + args.milliseconds / 1000
        while time.process_time() < until:
            pass
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
