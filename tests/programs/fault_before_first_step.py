"""Fails before its first step with a chained traceback and exit code 1."""

import torch
from torch import nn


class CorpusError(Exception):
    """The corpus cannot be used."""


def load_corpus(path):
    try:
        with open(path) as lines:
            return torch.tensor([float(line) for line in lines])
    except FileNotFoundError as error:
        raise CorpusError(f"no corpus at {path}; run prepare.py first") from error


def main():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    corpus = load_corpus("missing/corpus.txt")
    for row in corpus.split(4):
        optimizer.zero_grad()
        model(row).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
