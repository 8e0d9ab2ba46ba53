"""An image embedder, batches of 16.

planted: the loop calls the model once per image of the batch, adds up the losses and goes backward once.
near: two calls in a step, but each with the whole batch: two views of the same images.
fixed: one call with the batch.
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WARMUP = 5
BATCH = 16


class Embedder(nn.Module):
    def __init__(self, channels=16, depth=6):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.GroupNorm(4, channels), nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1))
            for _ in range(depth)
        )
        self.head = nn.Linear(channels, 32)

    def forward(self, images):
        x = self.stem(images)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x.mean(dim=(2, 3)))


def loss_of_batch(mode, model, images, targets):
    if mode == "near":
        first = model(images)
        second = model(images.flip(3))
        return nn.functional.mse_loss(first, targets) + nn.functional.mse_loss(second, targets)
    if mode == "fixed":
        return nn.functional.mse_loss(model(images), targets)
    outputs = [model(images[i : i + 1]) for i in range(len(images))]
    losses = [
        nn.functional.mse_loss(output[0], target) for output, target in zip(outputs, targets, strict=True)
    ]
    return torch.stack(losses).sum() / len(losses)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int, default=100_000)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(0)
    size = 32 if args.mode == "near" else 12
    images = torch.randn(320, 3, size, size)
    targets = torch.randn(320, 32)
    loader = DataLoader(TensorDataset(images, targets), batch_size=BATCH, shuffle=True)
    model = Embedder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    step = 0
    started = time.perf_counter()
    while True:
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_of_batch(args.mode, model, x, y)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 500 == 0:
                print(f"step {step} loss {loss.item():.4f}")
            if step <= WARMUP:
                started = time.perf_counter()
            if step == args.steps:
                print(f"seconds per step {(time.perf_counter() - started) / max(step - WARMUP, 1):.5f}")
                return


if __name__ == "__main__":
    main()
