"""Two DataLoader workers that load a vocabulary when they start.

planted: epochs of 12 steps and persistent_workers=False: both workers start anew in every epoch.
near: persistent_workers=False as well, but one very long epoch: they start once.
fixed: persistent_workers=True.
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info

WARMUP = 5
BATCH = 8
WORDS = 32
WIDTH = 768
VOCABULARY = 150_000


class Reviews(Dataset):
    def __init__(self, count):
        self.count = count
        self.vocabulary = {}

    def load_vocabulary(self):
        self.vocabulary = {f"word{number}": number * 7919 % 5000 for number in range(VOCABULARY)}

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        words = [f"word{(index * 31 + place * 97) % VOCABULARY}" for place in range(WORDS)]
        ids = torch.tensor([self.vocabulary[word] for word in words])
        return ids, (ids[:4].sum() % 2).float()


def start_worker(_):
    get_worker_info().dataset.load_vocabulary()


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.EmbeddingBag(5000, WIDTH, mode="mean", sparse=False)
        self.body = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    def forward(self, ids):
        return self.body(self.embedding(ids)).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int, default=100_000)
    args = parser.parse_args()
    torch.manual_seed(0)
    steps_per_epoch = 100_000 if args.mode == "near" else 12
    loader = DataLoader(
        Reviews(BATCH * steps_per_epoch),
        batch_size=BATCH,
        shuffle=True,
        num_workers=2,
        worker_init_fn=start_worker,
        persistent_workers=args.mode == "fixed",
    )
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    criterion = nn.BCEWithLogitsLoss()

    step = 0
    started = time.perf_counter()
    while True:
        for ids, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(ids), labels)
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
