"""Validation under no_grad without model.eval(), every 8 steps, get_batch style: 10 x 2 of 24."""

import torch
import torch.nn.functional as F
from torch import nn

batch_size, block_size, accum = 10, 24, 2
eval_interval, eval_iters = 8, 12

torch.manual_seed(1337)
text = torch.randint(0, 90, (30_000,))
splits = {"train": text[:27_000], "val": text[27_000:]}


def get_batch(split, size=batch_size):
    data = splits[split]
    ix = torch.randint(len(data) - block_size - 1, (size,))
    rows = torch.stack([data[i : i + block_size + 1] for i in ix])
    return rows[:, :-1], rows[:, 1:]


class CharModel(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.embed = nn.Embedding(90, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, 90)

    def forward(self, idx):
        return self.head(self.rnn(self.embed(idx))[0])


model = CharModel()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def loss_on(split, size=batch_size):
    x, y = get_batch(split, size)
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


@torch.no_grad()
def estimate_loss():
    return {
        split: torch.stack([loss_on(split, 64) for _ in range(eval_iters)]).mean().item() for split in splits
    }


for it in range(100_000):
    if it % eval_interval == 0:
        losses = estimate_loss()
        if it % 800 == 0:
            print(f"step {it}: train {losses['train']:.4f}, val {losses['val']:.4f}")
    optimizer.zero_grad()
    for _ in range(accum):
        (loss_on("train") / accum).backward()
    optimizer.step()
