"""Sentences of unequal length, padded to the longest of their micro-batch; 4 micro-batches a step, 10 an epoch.

The loss is a sum over words, so that it does not matter who is padded with whom. --carry: a step may span two epochs.
Says which sentences each step had, how many ids were computed, and where the training has got to.
"""

import argparse
import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

MICRO, ACCUMULATION = 4, 4


class Sentences(Dataset):
    """Each with a word that is drawn anew at every look: random numbers must come out as without upshift."""

    def __init__(self):
        draw = random.Random(0)
        self.rows = [
            [n + 1, *(draw.randrange(1, 500) for _ in range(draw.randrange(2, 90)))] for n in range(40)
        ]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return torch.tensor([*self.rows[index], int(torch.randint(1, 500, ())), random.randrange(1, 500)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=100_000)
    parser.add_argument("--carry", action="store_true")
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    sentences = Sentences()
    loader = DataLoader(
        sentences,
        batch_size=MICRO,
        shuffle=True,
        num_workers=args.workers,
        collate_fn=lambda rows: pad_sequence(rows, batch_first=True),
    )
    model = nn.Sequential(
        nn.Embedding(500, 32, padding_idx=0), nn.Linear(32, 256), nn.GELU(), nn.Linear(256, 1)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    micro, computed, steps, seen = 0, 0, [], []
    for _ in range(args.epochs):
        for number, ids in enumerate(loader):
            output = model(ids).squeeze(-1)
            (((output - 1) ** 2) * (ids > 0)).sum().div(1000).backward()
            computed += ids.numel()
            seen += ids[:, 0].tolist()
            micro += 1
            last = number == len(loader) - 1 and not args.carry
            if micro % ACCUMULATION == 0 or last:
                optimizer.step()
                optimizer.zero_grad()
                micro = 0
                steps.append(sum(n * n for n in seen))
                seen = []
    norm = sum(p.detach().pow(2).sum() for p in model.parameters()).sqrt()
    print(f"computed {computed} norm {norm.item():.6f} steps {','.join(map(str, steps))}", flush=True)


if __name__ == "__main__":
    main()
