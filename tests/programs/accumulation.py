"""Gradient accumulation by hand: 6 x 5 sequences of 40 tokens, loss divided by 5."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accumulation_steps = 5


class Classifier(nn.Module):
    def __init__(self, vocab=500, dim=48, classes=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.encoder = nn.TransformerEncoderLayer(dim, nhead=4, dim_feedforward=96, batch_first=True)
        self.head = nn.Linear(dim, classes)

    def forward(self, ids):
        return self.head(self.encoder(self.embed(ids)).mean(dim=1))


torch.manual_seed(1)
data = TensorDataset(torch.randint(1, 500, (600, 40)), torch.randint(0, 4, (600,)))
loader = DataLoader(data, batch_size=6, shuffle=True)
model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100_000)

model.train()
for _epoch in range(5000):
    optimizer.zero_grad()
    for i, (ids, labels) in enumerate(loader):
        loss = F.cross_entropy(model(ids), labels) / accumulation_steps
        loss.backward()
        if (i + 1) % accumulation_steps == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
