"""A classifier of sound clips that waits for its data.

planted: every clip is decoded in pure Python each time it is asked for. storage: every clip waits 2 ms, as network
storage does. collate: the collate function smooths every clip in pure Python.
near: every clip waits 1 ms, but two workers fetch ahead, so the training never waits.
fixed: the clips are decoded once and kept in memory.
"""

import argparse
import random
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, default_collate

WARMUP = 5
BATCH = 12
FRAMES = 512
CLASSES = 10


def decode(payload):
    """Undo the difference coding and average every 32 readings into one frame."""
    frames, level, total = [], 0, 0
    for position, byte in enumerate(payload, 1):
        level += byte - 128
        total += level
        if position % 32 == 0:
            frames.append(total / 32 / 1000)
            total = 0
    return torch.tensor(frames)


class Clips(Dataset):
    def __init__(self, access, count=960, recordings=96):
        rng = random.Random(0)
        self.access = access
        self.count = count
        self.payloads = [rng.randbytes(FRAMES * 32) for _ in range(recordings)]
        self.decoded = [decode(payload) for payload in self.payloads] if access != "decode" else []

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        recording = index % len(self.payloads)
        if self.access == "decode":
            return decode(self.payloads[recording]), recording % CLASSES
        if self.access in ("storage", "nearby"):
            time.sleep(0.002 if self.access == "storage" else 0.001)
        return self.decoded[recording], recording % CLASSES


def smooth_and_stack(samples):
    smoothed = []
    for frames, label in samples:
        values = frames.tolist()
        windows = [values[max(0, i - 24) : i + 25] for i in range(len(values))]
        smoothed.append((torch.tensor([sum(w) / len(w) + max(w) - min(w) for w in windows]), label))
    return default_collate(smoothed)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "storage", "collate", "near", "fixed"])
    parser.add_argument("--steps", type=int, default=100_000)
    args = parser.parse_args()
    torch.manual_seed(0)

    access = {"planted": "decode", "storage": "storage", "near": "nearby"}.get(args.mode, "memory")
    prefetch = {"num_workers": 2, "prefetch_factor": 4, "persistent_workers": True}
    loader = DataLoader(
        Clips(access),
        batch_size=BATCH,
        shuffle=True,
        collate_fn=smooth_and_stack if args.mode == "collate" else None,
        **(prefetch if args.mode == "near" else {}),
    )
    model = nn.Sequential(
        nn.Linear(FRAMES, 1280), nn.ReLU(), nn.Linear(1280, 1280), nn.ReLU(), nn.Linear(1280, CLASSES)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()

    step = 0
    started = time.perf_counter()
    while True:
        for frames, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(frames), labels)
            loss.backward()
            optimizer.step()
            step += 1
            if step <= WARMUP:
                started = time.perf_counter()
            if step == args.steps:
                print(f"seconds per step {(time.perf_counter() - started) / max(step - WARMUP, 1):.5f}")
                return


if __name__ == "__main__":
    main()
