"""The same model, computed in other ways: --checkpoint, --compile, --sdpa, --bf16, --inside, --fused, --lr.

--whole: one graph of model and loss. --inside: autocast begins in the model's own forward, as accelerate has it.
"""

import argparse
import contextlib

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width, sdpa):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.feed = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.2), nn.Linear(2 * width, width)
        )
        self.sdpa = sdpa

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        if self.sdpa:
            mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        else:
            mixed = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1) @ v
        x = x + mixed
        return x + self.feed(x)


class Model(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.blocks = nn.ModuleList(Block(24, args.sdpa) for _ in range(2))
        self.out = nn.Linear(24, 7)
        self.checkpoint = args.checkpoint

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoint else block(x)
        return self.out(x.mean(1))


class WithLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, y):
        return nn.functional.cross_entropy(self.model(x).float(), y)


def main():
    parser = argparse.ArgumentParser()
    for name in ("checkpoint", "compile", "whole", "sdpa", "bf16", "inside", "fused"):
        parser.add_argument("--" + name, action="store_true")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Model(args)
    if args.inside:
        model.forward = torch.autocast("cpu", torch.bfloat16)(model.forward)
    run = torch.compile(model) if args.compile else model
    take_loss = WithLoss(run)
    if args.whole:
        take_loss = torch.compile(take_loss, backend="aot_eager")
    inputs, labels = torch.randn(256, 10, 24), torch.randint(0, 7, (256,))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=args.fused or None)
    at = 0
    autocast = torch.autocast("cpu", torch.bfloat16) if args.bf16 else contextlib.nullcontext()
    while True:
        rows = slice(at, at + args.batch_size)
        at = (at + args.batch_size) % 256
        with autocast:
            loss = take_loss(inputs[rows], labels[rows])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
