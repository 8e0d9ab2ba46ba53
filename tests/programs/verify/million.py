"""A transformer of about a million parameters: what being watched by verify costs is measured on it."""

import argparse

import torch
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accum", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.Embedding(1000, 128), nn.TransformerEncoder(layer, 4), nn.Linear(128, 1000))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(args.steps):
        for _ in range(args.accum):
            ids = torch.randint(0, 1000, (args.batch_size, 64))
            loss = nn.functional.cross_entropy(model(ids[:, :-1]).transpose(1, 2), ids[:, 1:])
            (loss / args.accum).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
