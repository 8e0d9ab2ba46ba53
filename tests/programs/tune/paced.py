"""Optimizer steps that take a given time of computing, until killed or for so many steps.

--evaluate: every so many steps, three tenths of a second of evaluation and as much of saving.
--tell: the number of each step, when its gradients are known.
"""

import argparse
import io
import time

import torch


def compute(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


class Slow:
    def __getstate__(self):
        compute(0.3)
        return {}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--milliseconds", type=float, default=20)
    parser.add_argument("--steps", type=int, default=10**9)
    parser.add_argument("--evaluate", type=int)
    parser.add_argument("--tell", action="store_true")
    args = parser.parse_args()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        compute(args.milliseconds / 1000)
        model(torch.randn(4, 8)).sum().backward()
        if args.tell:
            print(step, flush=True)
        optimizer.step()
        optimizer.zero_grad()
        if args.evaluate and step % args.evaluate == 0:
            model.eval()
            with torch.no_grad():
                model(torch.randn(4, 8))
                compute(0.3)
            model.train()
            torch.save(Slow(), io.BytesIO())


if __name__ == "__main__":
    main()
