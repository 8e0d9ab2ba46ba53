"""A text classifier whose token ids (pad id 0) are padded to max_length.

planted: max_length=256 although no text is longer than 64 tokens.
near: max_length=256 and texts of 230 to 256 tokens, which need it.
fixed: max_length=64, which holds every text.
"""

import argparse
import random
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WARMUP = 5
BATCH = 8
VOCABULARY = 1000


class Texts(Dataset):
    def __init__(self, shortest, longest, max_length, count=320):
        rng = random.Random(0)
        lengths = [rng.randint(shortest, longest) for _ in range(count)]
        self.texts = [[rng.randrange(1, VOCABULARY) for _ in range(length)] for length in lengths]
        self.max_length = max_length

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        ids = self.texts[index][: self.max_length]
        padded = ids + [0] * (self.max_length - len(ids))
        return torch.tensor(padded), ids[0] % 2


class Classifier(nn.Module):
    def __init__(self, width=96, depth=2):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width, padding_idx=0)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(width, 2)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = x + block(x)
        kept = (ids != 0).unsqueeze(2)
        return self.head((x * kept).sum(dim=1) / kept.sum(dim=1))


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int, default=100_000)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(0)
    shortest, longest = (230, 256) if args.mode == "near" else (20, 64)
    texts = Texts(shortest, longest, max_length=64 if args.mode == "fixed" else 256)
    loader = DataLoader(texts, batch_size=BATCH, shuffle=True)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()

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
