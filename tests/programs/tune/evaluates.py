"""Small steps, and every thousand of them an evaluation of a second, which no short trial sees."""

import argparse
import time

import torch
from torch import nn


def evaluate(model):
    model.eval()
    with torch.no_grad():
        model(torch.randn(8, 16))
        time.sleep(1.0)
    model.train()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--eval-every", type=int, default=1000)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1, 1_000_000):
        loss = nn.functional.mse_loss(model(torch.randn(8, 16)), torch.zeros(8, 4))
        optimizer.zero_grad()
        loss.backward()
        time.sleep(0.004)
        optimizer.step()
        if step % args.eval_every == 0:
            evaluate(model)


if __name__ == "__main__":
    main()
