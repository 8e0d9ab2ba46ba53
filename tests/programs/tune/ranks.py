"""Two data-parallel ranks that exchange gradients with every micro-batch: 4 a step, and 2 in the last of an epoch.

Says how many exchanges there were and where the training has got to.
"""

import argparse
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel


def train(rank, port, epochs):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1)))
    exchanges = []

    def counted(group, bucket):
        exchanges.append(bucket)
        return allreduce_hook(group, bucket)

    model.register_comm_hook(None, counted)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    draw = torch.Generator().manual_seed(rank)
    inputs = torch.randn(40, 256, generator=draw)
    targets = inputs[:, :8].sum(1, keepdim=True)
    for _ in range(epochs):
        for micro in range(10):
            rows = slice(4 * micro, 4 * micro + 4)
            (nn.functional.mse_loss(model(inputs[rows]), targets[rows]) / 4).backward()
            if micro % 4 == 3 or micro == 9:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    both = [torch.empty_like(weights) for _ in range(2)]
    dist.all_gather(both, weights)
    if rank == 0:
        apart = (both[0] - both[1]).abs().max().item()
        print(f"exchanges {len(exchanges)} apart {apart} norm {weights.norm().item():.7f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=100_000)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    mp.spawn(train, args=(free, parser.parse_args().epochs), nprocs=2)
