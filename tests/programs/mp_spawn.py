"""Two ranks started by torch.multiprocessing.spawn, gloo: 5 x 3 on each."""

import contextlib
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

WORLD_SIZE, BATCH_SIZE, ACCUM = 2, 5, 3


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def train(rank, world_size, port):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world_size)
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(900, 64), torch.randint(0, 8, (900,)))
    sampler = DistributedSampler(data, num_replicas=world_size, rank=rank)
    loader = DataLoader(data, batch_size=BATCH_SIZE, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(64, 300), nn.GELU(), nn.Linear(300, 8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(3000):
        sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(loader):
            sync = (i + 1) % ACCUM == 0
            with contextlib.nullcontext() if sync else model.no_sync():
                (F.cross_entropy(model(x), y) / ACCUM).backward()
            if sync:
                optimizer.step()
                optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(train, args=(WORLD_SIZE, free_port()), nprocs=WORLD_SIZE, join=True)
