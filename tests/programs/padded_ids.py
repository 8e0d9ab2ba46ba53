"""Sentences padded with 0 to the longest of their batch: 8 x 2.

Each batch holds the lengths 5, 10, ... 40 once, so 7/16 of the positions are padding.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD = 0
ACCUM = 2


class Sentences(Dataset):
    """Sentences sorted by source document; the lengths repeat every eight."""

    def __init__(self, count=480, vocab=300):
        generator = torch.Generator().manual_seed(0)
        self.rows = [torch.randint(1, vocab, (5 * (1 + i % 8),), generator=generator) for i in range(count)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index], index % 2


def collate(samples):
    rows, labels = zip(*samples, strict=True)
    return pad_sequence(rows, batch_first=True, padding_value=PAD), torch.tensor(labels)


class Classifier(nn.Module):
    def __init__(self, vocab=300, dim=48):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.conv = nn.Conv1d(dim, 96, kernel_size=3, padding=1)
        self.head = nn.Linear(96, 2)

    def forward(self, ids):
        h = F.relu(self.conv(self.embed(ids).transpose(1, 2)))
        return self.head(h.amax(dim=2))


def main():
    torch.manual_seed(0)
    loader = DataLoader(Sentences(), batch_size=8, collate_fn=collate)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _epoch in range(3000):
        for i, (ids, labels) in enumerate(loader):
            (F.cross_entropy(model(ids), labels) / ACCUM).backward()
            if (i + 1) % ACCUM == 0:
                optimizer.step()
                optimizer.zero_grad()


if __name__ == "__main__":
    main()
