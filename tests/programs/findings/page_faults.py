"""Batches gathered from a memory-mapped file that is not in the page cache.

planted: every step drops the pages of the file first, as a machine short of memory would, so that each row is a major
page fault.  near: the same mapped file, its pages left alone.  fixed: the file is read into memory once.
"""

import argparse
import mmap
import os
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

ROW, ROWS, BATCH = 1024, 75_000, 96


def write_rows(path):
    """Some 300 MB of float32 rows, 4 kB each."""
    chunk = torch.randn(ROWS // 25, ROW).numpy().tobytes()
    with path.open("wb") as file:
        for _ in range(25):
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())


def drop_pages(file, mapped):
    mapped.madvise(mmap.MADV_DONTNEED)
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def train(args, file):
    torch.manual_seed(0)
    if args.mode == "fixed":
        buffer = bytearray(4 * ROWS * ROW)
        file.readinto(buffer)
        rows = torch.frombuffer(buffer, dtype=torch.float32).view(ROWS, ROW)
    else:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        mapped.madvise(mmap.MADV_RANDOM)
        rows = torch.frombuffer(mapped, dtype=torch.float32).view(ROWS, ROW)
    model = nn.Sequential(nn.Linear(ROW, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    criterion = nn.MSELoss()

    steps = args.steps or 100_000
    started = time.perf_counter()
    for step in range(steps):
        if step == 5:
            started = time.perf_counter()
        if args.mode == "planted":
            drop_pages(file, mapped)
        x = rows[torch.randint(0, ROWS, (BATCH,))]
        loss = criterion(model(x), x[:, :8].sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    if args.steps:
        print(f"seconds per step {(time.perf_counter() - started) / max(steps - 5, 1):.5f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.bin"
        write_rows(path)
        with path.open("rb") as file:
            train(args, file)


if __name__ == "__main__":
    main()
