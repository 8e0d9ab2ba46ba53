"""Two ranks over gloo: data-parallel training with accumulation. Mode `mean` or `normalised`, as in tokens.py."""

import argparse
import os
import random

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, DistributedSampler


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["mean", "normalised"])
    parser.add_argument("--batch_size", type=int, default=2)
    parser.add_argument("--accumulate", type=int, default=4)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    rng = random.Random(2)
    data = [torch.tensor([rng.randrange(1, 40) for _ in range(rng.choice([4, 7, 30]))]) for _ in range(160)]
    model = DistributedDataParallel(nn.Sequential(nn.Embedding(40, 16, padding_idx=0), nn.Linear(16, 40)))
    sampler = DistributedSampler(data, seed=1)
    loader = DataLoader(
        data, args.batch_size, sampler=sampler, collate_fn=lambda rows: pad_sequence(rows, batch_first=True)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    window = []
    for epoch in range(100):
        sampler.set_epoch(epoch)
        for batch in loader:
            window.append(batch)
            if len(window) == args.accumulate:
                step(model, optimizer, window, args)
                window = []


def step(model, optimizer, window, args):
    tokens = torch.tensor(float(sum((b[:, 1:] != 0).sum() for b in window)))
    dist.all_reduce(tokens)
    for batch in window:
        logits = model(batch[:, :-1]).transpose(1, 2)
        if args.mode == "mean":
            loss = F.cross_entropy(logits, batch[:, 1:], ignore_index=0) / args.accumulate
        else:
            loss = F.cross_entropy(logits, batch[:, 1:], ignore_index=0, reduction="sum")
            loss = loss * int(os.environ["WORLD_SIZE"]) / tokens
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()


if __name__ == "__main__":
    main()
