"""Trainings with one trap each for whoever tunes them (--trap). Otherwise a call costs the same, whatever its batch.

never_used: --batch-size is parsed, and that is all.  two_flags: it is --train-batch-size that counts.
batch_asserted, product_asserted: other values stop it.  slower: larger calls cost far more.  waiting: samples take
long to read.  folklore: --bf16 and --compile make each call longer.  prime: thirteen samples a step.  tokens: the
accumulation follows from the tokens of a step.  two_files: old.yaml is read, and new.yaml overrules it.  noisy: a
step takes as long as it happens to.
"""

import argparse
import random
import time
from pathlib import Path

import torch
import yaml
from torch import nn
from torch.utils.data import DataLoader, Dataset

LENGTH = 24


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(16, 32)
        self.out = nn.Linear(32, 5)

    def forward(self, x):
        hidden = x.new_zeros(len(x), 32)
        for moment in x.unbind(1):
            hidden = self.cell(moment, hidden)
        return self.out(hidden)


class Texts(Dataset):
    def __init__(self, seconds):
        made = torch.Generator().manual_seed(0)
        self.inputs = torch.randn(2080, LENGTH, 16, generator=made)
        self.labels = torch.randint(0, 5, (2080,), generator=made)
        self.seconds = seconds

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return self.inputs[index], self.labels[index]


def compute(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def chosen(args):
    """(micro-batch, accumulation) as this trap takes them."""
    if args.trap == "never_used":
        return len("ab"), args.accumulation
    if args.trap == "two_flags":
        return args.train_batch_size, args.accumulation
    if args.trap == "tokens":
        return args.batch_size, args.total_tokens // (args.batch_size * LENGTH)
    if args.trap == "two_files":
        settings = yaml.safe_load(Path("old.yaml").read_text()) | yaml.safe_load(Path("new.yaml").read_text())
        return settings["batch_size"], settings["grad_accum"]
    if args.trap == "batch_asserted":
        assert args.batch_size == 2, "this model wants a batch of two"
    if args.trap == "product_asserted":
        assert args.batch_size * args.accumulation == 16, "the recipe wants sixteen samples a step"
    return args.batch_size, args.accumulation


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trap", required=True)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--train-batch-size", type=int, default=2)
    parser.add_argument("--accumulation", type=int, default=8)
    parser.add_argument("--total-tokens", type=int, default=16 * LENGTH)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    micro, accumulation = chosen(args)
    torch.manual_seed(0)
    luck = random.Random()
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    texts = Texts(0.02 if args.trap == "waiting" else 0.0)
    loader = DataLoader(texts, batch_size=micro, num_workers=args.workers, drop_last=True)
    made = 0
    while True:
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            (loss / accumulation).backward()
            if args.trap == "slower":
                compute(0.004 + 0.001 * micro**2)  # per sample the least at two, on a fast machine too
            if args.bf16 or args.compile:
                compute(0.02)
            made += 1
            if made % accumulation == 0:
                optimizer.step()
                optimizer.zero_grad()
                if args.trap == "noisy":
                    compute(luck.paretovariate(1.2) * 0.05)


if __name__ == "__main__":
    main()
