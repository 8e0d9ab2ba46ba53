"""Data parallel training where one rank has more to do: two ranks over gloo.

planted: rank 1 gets sequences three times as long as rank 0, which waits for it.  near: lengths vary a little from
step to step, but have the same mean on both ranks.  fixed: both ranks get the mean of the planted lengths.
"""

import argparse
import os
import random
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH, BATCH, LENGTH = 128, 16, 48


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(256, WIDTH)
        self.hidden = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH), nn.ReLU()
        )
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, tokens):
        return self.head(self.hidden(self.embedding(tokens)).mean(1))


def length_of(mode, rank, rng):
    if mode == "planted":
        return LENGTH * (3 if rank == 1 else 1)
    return 2 * LENGTH + (rng.randint(-4, 4) if mode == "near" else 0)


def train(rank, args, port):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = DistributedDataParallel(Network())
    torch.manual_seed(1 + rank)
    rng = random.Random(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()

    steps = args.steps or 100_000
    started = time.perf_counter()
    for step in range(steps):
        if step == 5:
            started = time.perf_counter()
        tokens = torch.randint(0, 256, (BATCH, length_of(args.mode, rank, rng)))
        loss = criterion(model(tokens), tokens[:, 0] % 10)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    if args.steps and rank == 0:
        print(f"seconds per step {(time.perf_counter() - started) / max(steps - 5, 1):.5f}", flush=True)
    dist.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()
    mp.spawn(train, args=(args, free_port()), nprocs=2)


if __name__ == "__main__":
    main()
