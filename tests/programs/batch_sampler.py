"""A batch_sampler of one's own that keeps similar lengths together: 15 x 2.

The DataLoader's batch_size is None. Lengths are 10, 20, 30 or 40 and batches are never mixed,
so nothing is padded.
"""

import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler


class Sentences(Dataset):
    def __init__(self, count=600):
        generator = torch.Generator().manual_seed(0)
        self.lengths = [10 * (1 + i % 4) for i in range(count)]
        self.rows = [torch.randint(1, 200, (n,), generator=generator) for n in self.lengths]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index], self.lengths[index] // 10 - 1


class LengthBatchSampler(Sampler):
    def __init__(self, lengths, batch_size):
        self.buckets = {}
        for index, length in enumerate(lengths):
            self.buckets.setdefault(length, []).append(index)
        self.size = batch_size

    def __iter__(self):
        batches = []
        for bucket in self.buckets.values():
            order = random.sample(bucket, len(bucket))
            batches += [order[i : i + self.size] for i in range(0, len(order), self.size)]
        random.shuffle(batches)
        yield from batches

    def __len__(self):
        return sum(-(-len(bucket) // self.size) for bucket in self.buckets.values())


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(200, 32)
        self.rnn = nn.LSTM(32, 48, batch_first=True)
        self.head = nn.Linear(48, 4)

    def forward(self, ids):
        return self.head(self.rnn(self.embed(ids))[0][:, -1])


random.seed(0)
torch.manual_seed(0)
dataset = Sentences()
loader = DataLoader(dataset, batch_sampler=LengthBatchSampler(dataset.lengths, 15))
model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _epoch in range(5000):
    for i, (ids, labels) in enumerate(loader):
        (F.cross_entropy(model(ids), labels) / 2).backward()
        if i % 2 == 1:
            optimizer.step()
            optimizer.zero_grad()
