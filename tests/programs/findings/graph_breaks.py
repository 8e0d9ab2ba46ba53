"""A compiled model that falls out of its graph in each of 12 blocks.

planted: each block branches in Python on a number read from a tensor with item().  near: each block branches on a
plain Python attribute, which compiles into one graph.  fixed: the branch of planted as torch.where.
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FEATURES, WIDTH, BATCH = 64, 256, 128


class Block(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.mode = mode
        self.clipped = True
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        y = self.linear(x)
        if self.mode == "planted":
            if y.detach().abs().max().item() > 4:
                y = y.clamp(-4, 4)
        elif self.mode == "near":
            if self.clipped:
                y = y.clamp(-4, 4)
        else:
            y = torch.where(y.detach().abs().max() > 4, y.clamp(-4, 4), y)
        return x + 0.1 * torch.relu(y)


class Network(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.first = nn.Linear(FEATURES, WIDTH)
        self.blocks = nn.ModuleList(Block(mode) for _ in range(12))
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x):
        x = self.first(x)
        x = self.blocks[0](x)
        x = self.blocks[1](x)
        x = self.blocks[2](x)
        x = self.blocks[3](x)
        x = self.blocks[4](x)
        x = self.blocks[5](x)
        x = self.blocks[6](x)
        x = self.blocks[7](x)
        x = self.blocks[8](x)
        x = self.blocks[9](x)
        x = self.blocks[10](x)
        x = self.blocks[11](x)
        return self.head(x)


def endless(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()

    torch.manual_seed(0)
    data = TensorDataset(torch.randn(4096, FEATURES), torch.randint(0, 10, (4096,)))
    batches = endless(DataLoader(data, batch_size=BATCH, shuffle=True))
    model = Network(args.mode)
    compiled = torch.compile(model, backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    criterion = nn.CrossEntropyLoss()

    steps = args.steps or 100_000
    started = time.perf_counter()
    for step in range(steps):
        if step == 5:
            started = time.perf_counter()
        x, y = next(batches)
        loss = criterion(compiled(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    if args.steps:
        print(f"seconds per step {(time.perf_counter() - started) / max(steps - 5, 1):.5f}")


if __name__ == "__main__":
    main()
