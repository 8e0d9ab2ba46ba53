"""Gradient accumulation, eight samples in an optimizer step.

planted: micro-batches of 1, eight of them, through many small layers: a call costs the same for 1 as for 8.
near: the same accumulation, but one sample is 512 wide tokens, so eight at once cost eight times as much.
fixed: one micro-batch of 8 and no accumulation; the same samples in every optimizer step.
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WARMUP = 5
EFFECTIVE_BATCH = 8


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, width)
        self.down = nn.Linear(width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Regressor(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = nn.Sequential(*[Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, 1)

    def forward(self, tokens):
        return self.head(self.blocks(tokens).mean(dim=1)).squeeze(1)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int, default=100_000)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(0)
    if args.mode == "near":
        tokens, width, depth = 512, 384, 1
    else:
        tokens, width, depth = 32, 64, 8
    micro_batch = EFFECTIVE_BATCH if args.mode == "fixed" else 1
    accumulation = EFFECTIVE_BATCH // micro_batch

    x = torch.randn(128, tokens, width)
    loader = DataLoader(TensorDataset(x, x.mean(dim=(1, 2))), batch_size=micro_batch, shuffle=True)
    model = Regressor(width, depth)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.MSELoss()

    step = 0
    started = time.perf_counter()
    while True:
        for index, (inputs, targets) in enumerate(loader):
            loss = criterion(model(inputs), targets) / accumulation
            loss.backward()
            if (index + 1) % accumulation:
                continue
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step % 500 == 0:
                print(f"step {step} loss {loss.item() * accumulation:.4f}")
            if step <= WARMUP:
                started = time.perf_counter()
            if step == args.steps:
                print(f"seconds per step {(time.perf_counter() - started) / max(step - WARMUP, 1):.5f}")
                return


if __name__ == "__main__":
    main()
