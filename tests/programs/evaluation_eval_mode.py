"""Evaluation with model.eval() after every tenth step, in batches of 40: training is 6 x 3."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUM, EVAL_EVERY = 3, 10


def make_loader(count, batch_size, shuffle):
    x = torch.randn(count, 100)
    return DataLoader(TensorDataset(x, (x.sum(1) > 0).long()), batch_size, shuffle=shuffle)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    correct = total = 0
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum().item()
        total += len(y)
    model.train()
    return correct / total


def main():
    torch.manual_seed(0)
    train_loader = make_loader(720, 6, shuffle=True)
    valid_loader = make_loader(2000, 40, shuffle=False)
    model = nn.Sequential(nn.Linear(100, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 256))
    model.extend([nn.ReLU(), nn.Linear(256, 2)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step, best = 0, 0.0
    for _epoch in range(3000):
        for i, (x, y) in enumerate(train_loader):
            (F.cross_entropy(model(x), y) / ACCUM).backward()
            if (i + 1) % ACCUM == 0:
                optimizer.step()
                optimizer.zero_grad()
                step += 1
                if step % EVAL_EVERY == 0:
                    best = max(best, evaluate(model, valid_loader))
    print(f"best accuracy {best:.3f}")


if __name__ == "__main__":
    main()
