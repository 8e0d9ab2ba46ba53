"""An endless IterableDataset that packs a stream of tokens: 6 x 3 of 31 tokens.

Cutting words out of the stream is slow, so a step mostly waits for data.
"""

import itertools
import random
import re

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

WORDS = [f"w{i:03d}" for i in range(300)]
VOCAB = {word: i for i, word in enumerate(WORDS)}
PATTERN = re.compile(r"\b(?:[a-z]+)(?:[0-9]+)\b")


class PackedText(IterableDataset):
    def __init__(self, length=32):
        self.length = length

    def lines(self):
        rng = random.Random(0)
        for _ in itertools.count():
            yield " ".join(rng.choices(WORDS, k=1000))

    def __iter__(self):
        for line in self.lines():
            ids = [VOCAB[m.group()] for m in PATTERN.finditer(line)]  # <- time goes here
            yield torch.tensor(ids[: self.length])


class LanguageModel(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Embedding(len(VOCAB), dim)
        self.mix = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(2 * dim, len(VOCAB))

    def forward(self, ids):
        return self.out(F.gelu(self.mix(self.embed(ids))))


def main(accum=3):
    torch.manual_seed(0)
    loader = DataLoader(PackedText(), batch_size=6)
    model = LanguageModel()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for i, batch in enumerate(loader, start=1):
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), batch[:, 1:])
        (loss / accum).backward()
        if i % accum == 0:
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main()
