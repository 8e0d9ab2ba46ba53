"""DistributedDataParallel under torchrun, gloo: 6 x 2 on each of two ranks."""

import contextlib
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

ACCUM = 2


def main():
    dist.init_process_group("gloo")
    rank = int(os.environ["LOCAL_RANK"])
    torch.manual_seed(0)
    x = torch.randn(960, 80)
    data = TensorDataset(x, x.flip(1))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=6, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(80, 256), nn.ReLU(), nn.Linear(256, 80)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(3000):
        sampler.set_epoch(epoch)
        for i, (inputs, targets) in enumerate(loader):
            last = (i + 1) % ACCUM == 0
            with contextlib.nullcontext() if last else model.no_sync():
                loss = F.mse_loss(model(inputs), targets) / ACCUM
                loss.backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
        if rank == 0 and epoch % 100 == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
