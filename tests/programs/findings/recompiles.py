"""A compiled part of a model that is compiled again for almost every batch.

planted: torch.compile(dynamic=False) sees another sequence length in nearly every step.  near: the same compiled
part, all sequences of one length.  fixed: the sequences of planted, padded to one length.
"""

import argparse
import time

import torch
import torch._dynamo
from torch import nn

WIDTH, BATCH, SHORTEST, LONGEST = 64, 8, 1000, 3000

torch._dynamo.config.recompile_limit = 10_000
torch._dynamo.config.accumulated_recompile_limit = 10_000


def pool(x):
    return torch.relu(x).mean(1)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = torch.compile(pool, backend="eager", dynamic=False)
        self.embedding = nn.Embedding(256, WIDTH, padding_idx=0)
        self.hidden = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, tokens):
        return self.head(self.pool(self.hidden(self.embedding(tokens))))


def batches(mode):
    """Sequences of one length per batch; each length comes once before any comes again."""
    rng = torch.Generator().manual_seed(0)
    while True:
        for length in (torch.randperm(LONGEST - SHORTEST, generator=rng) + SHORTEST).tolist():
            length = (SHORTEST + LONGEST) // 2 if mode == "near" else length
            tokens = torch.randint(1, 256, (BATCH, length), generator=rng)
            if mode == "fixed":
                tokens = nn.functional.pad(tokens, (0, LONGEST - length))
            yield tokens, torch.randint(0, 10, (BATCH,), generator=rng)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()

    torch.manual_seed(0)
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    criterion = nn.CrossEntropyLoss()

    steps = args.steps or 100_000
    started = time.perf_counter()
    for step, (tokens, labels) in zip(range(steps), batches(args.mode), strict=False):
        if step == 5:
            started = time.perf_counter()
        loss = criterion(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    if args.steps:
        print(f"seconds per step {(time.perf_counter() - started) / max(steps - 5, 1):.5f}")


if __name__ == "__main__":
    main()
