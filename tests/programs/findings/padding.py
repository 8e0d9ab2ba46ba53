"""A tagger of token ids (pad id 0), padded to the longest sentence of the batch.

planted: lengths from 8 to 160 in random order, so more than half of every batch is padding.
near: the same loader, but all sentences are nearly equally long.
fixed: batches of similar lengths (sorted once, the order of the batches shuffled); the same sentences.
"""

import argparse
import random
import time

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

WARMUP = 5
BATCH = 16
VOCABULARY = 1000
TAGS = 8


def make_sentences(even, count=320):
    rng = random.Random(0)
    lengths = [rng.randint(96, 100) if even else 8 + int(152 * rng.random() ** 2.5) for _ in range(count)]
    return [torch.tensor([rng.randrange(1, VOCABULARY) for _ in range(length)]) for length in lengths]


def collate(sentences):
    return pad_sequence(sentences, batch_first=True, padding_value=0)


class SimilarLengths:
    """Batches of sentences next to each other in length, in random order."""

    def __init__(self, sentences):
        order = sorted(range(len(sentences)), key=lambda index: len(sentences[index]))
        self.batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
        self.rng = random.Random(0)

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return iter(self.rng.sample(self.batches, len(self.batches)))


class Tagger(nn.Module):
    def __init__(self, width=96, depth=2):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width, padding_idx=0)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(width, TAGS)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int, default=100_000)
    args = parser.parse_args()
    torch.manual_seed(0)
    sentences = make_sentences(even=args.mode == "near")
    if args.mode == "fixed":
        loader = DataLoader(sentences, batch_sampler=SimilarLengths(sentences), collate_fn=collate)
    else:
        loader = DataLoader(sentences, batch_size=BATCH, shuffle=True, collate_fn=collate)
    model = Tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss(ignore_index=-1)

    step = 0
    started = time.perf_counter()
    while True:
        for ids in loader:
            tags = torch.where(ids == 0, -1, ids % TAGS)
            optimizer.zero_grad()
            loss = criterion(model(ids).flatten(0, 1), tags.flatten())
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
