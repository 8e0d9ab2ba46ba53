"""Everything from argparse flags; run with --batch-size 10 --accum 3.

The optimizer orthogonalises each update (Newton-Schulz), which costs more than the model does.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised by Newton-Schulz."""

    def __init__(self, params, lr=0.02, momentum=0.95, iterations=5):
        super().__init__(params, {"lr": lr, "momentum": momentum, "iterations": iterations})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                buf = self.state[p].setdefault("momentum", torch.zeros_like(p))
                buf.mul_(group["momentum"]).add_(p.grad)
                x = buf / (buf.norm() + 1e-7)
                for _ in range(group["iterations"]):
                    a = x @ x.T
                    b = -4.775 * a + 2.0315 * a @ a
                    x = 3.4445 * x + b @ x
                p.add_(x, alpha=-group["lr"])


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--max-steps", type=int, default=100_000)
    return parser.parse_args()


def batches(loader):
    while True:
        yield from loader


def main():
    args = parse_args()
    torch.manual_seed(0)
    x = torch.randn(900, args.hidden)
    loader = DataLoader(TensorDataset(x, x.flip(1)), batch_size=args.batch_size, shuffle=True)
    layers = [nn.Linear(args.hidden, args.hidden, bias=False) for _ in range(3)]
    model = nn.Sequential(layers[0], nn.GELU(), layers[1], nn.GELU(), layers[2])
    optimizer = Muon(model.parameters(), lr=args.lr)
    stream = batches(loader)
    for _step in range(args.max_steps):
        optimizer.zero_grad(set_to_none=True)
        for _micro in range(args.accum):
            inputs, targets = next(stream)
            loss = (model(inputs) - targets).square().mean() / args.accum
            loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
