"""Texts of very different length; the longest come late, and a batch of them takes eight times the memory.

--kilobytes is what each token of a padded batch holds on to while the model is called.
"""

import argparse

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class Texts(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        length = 64 if index >= 60_000 and index % 100 == 0 else 8
        return torch.full((length,), index % 50), index % 5


def collate(samples):
    return pad_sequence([text for text, _ in samples], batch_first=True), torch.tensor(
        [y for _, y in samples]
    )


class Model(nn.Module):
    def __init__(self, kilobytes):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.cell = nn.GRUCell(16, 16)
        self.out = nn.Linear(16, 5)
        self.kilobytes = kilobytes

    def forward(self, x):
        held = torch.empty(x.numel(), self.kilobytes << 8)  # allocated, never touched
        hidden = torch.zeros(len(x), 16)
        for _ in range(12):  # fixed cost of a call
            hidden = self.cell(self.embedding(x).mean(1), hidden)
        return self.out(hidden) if len(held) else hidden


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--accum", type=int, default=8)
    parser.add_argument("--save-every", type=int, default=1000)
    parser.add_argument("--eval-every", type=int, default=1000)
    parser.add_argument("--kilobytes", type=int, default=512)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Model(args.kilobytes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(Texts(), batch_size=args.batch_size, collate_fn=collate)
    step = micro = 0
    while True:
        for x, y in loader:
            (nn.functional.cross_entropy(model(x), y) / args.accum).backward()
            micro += 1
            if micro % args.accum:
                continue
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step % args.eval_every == 0:
                model.eval()
                with torch.no_grad():
                    model(x)
                model.train()
            if step % args.save_every == 0:
                torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
