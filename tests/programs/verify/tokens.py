"""A language model over texts of very different lengths, with gradient accumulation. Modes:

mean         the loss of each micro-batch is the mean over its own tokens
normalised   the sum over tokens, divided by the tokens of the whole step
undivided    losses of texts of equal length are summed over micro-batches, never divided
twice        divided by the accumulation in the loss and again in the gradient
clip_each    gradients are clipped after every micro-batch
clip_once    gradients are clipped once, before the step
schedule_each  the scheduler steps with every micro-batch
schedule_once  the scheduler steps once a step
smoothing    label smoothing, rightly normalised
noise        gradient noise, added once before the step
partial      the epoch ends with fewer samples than a step takes, and each batch is divided as if it did not
unseeded     no seed anywhere
restless     the data order comes from the clock
detached     the first layer's output is detached (with --broken only)
"""

import argparse
import random
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

PAD, WORDS = 0, 60
EQUAL = ("undivided", "twice", "clip_each", "clip_once", "schedule_each", "schedule_once", "noise", "partial")


class Model(nn.Module):
    def __init__(self, detach):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 24, padding_idx=PAD)
        self.first = nn.Linear(24, 32)
        self.mix = nn.GRU(32, 32, batch_first=True)
        self.out = nn.Linear(32, WORDS)
        self.detach = detach

    def forward(self, ids):
        hidden = torch.relu(self.first(self.embedding(ids)))
        if self.detach:
            hidden = hidden.detach()
        return self.out(self.mix(hidden)[0])


def texts(mode, count=96):
    rng = random.Random(5)
    lengths = [24] * count if mode in EQUAL else [rng.choice([5, 8, 13, 30, 60]) for _ in range(count)]
    return [torch.tensor([rng.randrange(2, WORDS) for _ in range(n)]) for n in lengths]


def collate(rows):
    return pad_sequence(rows, batch_first=True, padding_value=PAD)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode")
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--accum", type=int, default=8)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--broken", action="store_true")
    args = parser.parse_args()
    mode = args.mode
    if mode != "unseeded":
        torch.manual_seed(3)
    order = random.Random(time.time_ns() if mode == "restless" else 3)
    data = texts(mode, 88 if mode == "partial" else 96)
    if mode == "restless":
        order.shuffle(data)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=mode != "restless", collate_fn=collate)
    model = Model(args.broken)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
    done = 0
    while done < args.steps:
        window, epoch = [], list(loader)
        for position, batch in enumerate(epoch, 1):
            window.append(batch)
            if len(window) < args.accum and position < len(epoch):
                continue
            train_step(model, optimizer, scheduler, window, mode, args.accum)
            window = []
            done += 1
            if done == args.steps:
                break


def train_step(model, optimizer, scheduler, window, mode, accum):
    tokens = sum(int((batch[:, 1:] != PAD).sum()) for batch in window)
    for batch in window:
        logits = model(batch[:, :-1]).transpose(1, 2)
        smoothing = 0.1 if mode == "smoothing" else 0.0
        if mode in ("normalised", "smoothing", "unseeded", "restless", "detached"):
            loss = F.cross_entropy(
                logits, batch[:, 1:], ignore_index=PAD, reduction="sum", label_smoothing=smoothing
            )
            loss = loss / tokens
        else:
            loss = F.cross_entropy(logits, batch[:, 1:], ignore_index=PAD)
            if mode != "undivided":
                loss = loss / accum
        loss.backward()
        if mode == "clip_each":
            nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        if mode == "schedule_each":
            scheduler.step()
    if mode == "twice":
        for parameter in model.parameters():
            parameter.grad /= accum
    if mode == "clip_once":
        nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    if mode == "noise":
        for parameter in model.parameters():
            parameter.grad += 0.01 * torch.randn_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    if mode == "schedule_once":
        scheduler.step()


if __name__ == "__main__":
    main()
