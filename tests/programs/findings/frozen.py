"""A frozen encoder in the training loop, on a fixed dataset without augmentation.

planted: the frozen encoder (eval mode) encodes the same raw inputs in every epoch, before a small trainable head.
near: the frozen encoder comes after a trainable adapter; gradients flow through it and its inputs change.
near2: the frozen module is a moving average of the trained one, updated in place in every step.
fixed: the encoder's outputs are computed once before the loop.
"""

import argparse
import copy
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WARMUP = 5
BATCH = 128
FEATURES = 512
WIDTH = 1024


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(FEATURES, WIDTH),
            nn.GELU(),
            nn.Linear(WIDTH, WIDTH),
            nn.GELU(),
            nn.Linear(WIDTH, FEATURES),
        )

    def forward(self, x):
        return self.layers(x)


@torch.no_grad()
def move_average(teacher, student, decay=0.99):
    for average, parameter in zip(teacher.parameters(), student.parameters(), strict=True):
        average.lerp_(parameter, 1 - decay)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "near2", "fixed"])
    parser.add_argument("--steps", type=int, default=100_000)
    args = parser.parse_args()
    torch.manual_seed(0)
    x = torch.randn(1280, FEATURES)
    labels = x[:, :10].argmax(dim=1)
    encoder = Encoder().requires_grad_(False).eval()
    head = nn.Sequential(nn.Linear(FEATURES, 768), nn.ReLU(), nn.Linear(768, 10))
    adapter = nn.Linear(FEATURES, FEATURES)
    student = copy.deepcopy(encoder).requires_grad_(True).train()
    trained = {"near": [adapter, head], "near2": [student, head]}.get(args.mode, [head])
    if args.mode == "fixed":
        with torch.no_grad():
            x = torch.cat([encoder(part) for part in x.split(BATCH)])
    loader = DataLoader(TensorDataset(x, labels), batch_size=BATCH, shuffle=True)
    optimizer = torch.optim.SGD([p for module in trained for p in module.parameters()], lr=1e-2)
    criterion = nn.CrossEntropyLoss()

    step = 0
    started = time.perf_counter()
    while True:
        for inputs, targets in loader:
            optimizer.zero_grad()
            if args.mode == "fixed":
                loss = criterion(head(inputs), targets)
            elif args.mode == "near":
                loss = criterion(head(encoder(adapter(inputs))), targets)
            elif args.mode == "near2":
                features = student(inputs)
                loss = criterion(head(features), targets) + nn.functional.mse_loss(features, encoder(inputs))
            else:
                loss = criterion(head(encoder(inputs)), targets)
            loss.backward()
            optimizer.step()
            if args.mode == "near2":
                move_average(encoder, student)
            step += 1
            if step <= WARMUP:
                started = time.perf_counter()
            if step == args.steps:
                print(f"seconds per step {(time.perf_counter() - started) / max(step - WARMUP, 1):.5f}")
                return


if __name__ == "__main__":
    main()
