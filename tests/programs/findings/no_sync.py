"""Data parallel training with gradient accumulation: two ranks over gloo.

planted: 8 micro-batches per step, gradients are all-reduced after each of them.  near: 1 micro-batch per step, which
has to be all-reduced.  fixed: no_sync() on all but the last of the 8 micro-batches.
"""

import argparse
import contextlib
import os
import socket
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FEATURES, WIDTH, BATCH = 2048, 512, 4


def build():
    return nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))


def train(rank, args, port):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = DistributedDataParallel(build())
    torch.manual_seed(1 + rank)
    inputs = torch.randn(1024, FEATURES)
    targets = inputs[:, :8].sum(1, keepdim=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    criterion = nn.MSELoss()
    accumulation = 1 if args.mode == "near" else 8

    steps = args.steps or 100_000
    started = time.perf_counter()
    for step in range(steps):
        if step == 5:
            started = time.perf_counter()
        optimizer.zero_grad()
        for micro in range(accumulation):
            chosen = torch.randint(0, len(inputs), (BATCH,))
            local = args.mode == "fixed" and micro < accumulation - 1
            with model.no_sync() if local else contextlib.nullcontext():
                loss = criterion(model(inputs[chosen]), targets[chosen]) / accumulation
                loss.backward()
        optimizer.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item() * accumulation:.4f}", flush=True)
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
