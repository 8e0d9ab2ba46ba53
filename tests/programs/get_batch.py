"""No DataLoader: a get_batch() that cuts random windows out of one long text: 5 x 4 of 32 tokens.

get_batch reads its windows from a compressed file on a slow disk: most of a step.
"""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 5
block_size = 32
gradient_accumulation_steps = 4
max_iters = 100_000
vocab_size = 65
n_embd = 48

torch.manual_seed(1337)
data = torch.randint(0, vocab_size, (20_000,))


def read_window(start):
    time.sleep(0.0012)  # <- time goes here
    return data[start : start + block_size + 1]


def get_batch():
    starts = torch.randint(len(data) - block_size - 1, (batch_size,))
    windows = torch.stack([read_window(int(s)) for s in starts])
    return windows[:, :-1], windows[:, 1:]


class BigramLanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(vocab_size, n_embd)
        self.pos = nn.Embedding(block_size, n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 96), nn.ReLU(), nn.Linear(96, vocab_size))

    def forward(self, idx, targets=None):
        x = self.tok(idx) + self.pos(torch.arange(idx.size(1)))
        logits = self.mlp(x)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, vocab_size), targets.reshape(-1))


model = BigramLanguageModel()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for it in range(max_iters):
    for _micro_step in range(gradient_accumulation_steps):
        X, Y = get_batch()
        logits, loss = model(X, Y)
        (loss / gradient_accumulation_steps).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if it % 500 == 0:
        print(f"iter {it}: loss {loss.item():.4f}")
