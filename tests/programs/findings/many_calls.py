"""A sequence model of 64 time steps with an encoder and a decoder.

planted: the decoder is an LSTMCell and an attention module called for one time step after the other, 64 times.
near: a small gate is called 64 times too, next to an encoder that takes nearly all of the time.
fixed: nn.LSTM over the whole sequence and attention for all time steps, one call each.
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WARMUP = 5
BATCH = 4
STEPS = 64
WIDTH = 32


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)

    def forward(self, state, memory):
        return nn.functional.scaled_dot_product_attention(self.query(state), memory, memory)


class StepwiseDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(WIDTH, WIDTH)
        self.attention = Attention()
        self.head = nn.Linear(2 * WIDTH, 10)

    def forward(self, x, memory):
        state, steps = None, []
        for t in range(STEPS):
            state = self.cell(x[:, t], state)
            steps.append(torch.cat([state[0], self.attention(state[0][:, None], memory)[:, 0]], dim=-1))
        return self.head(torch.stack(steps, dim=1))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.attention = Attention()
        self.head = nn.Linear(2 * WIDTH, 10)

    def forward(self, x, memory):
        states, _ = self.lstm(x)
        return self.head(torch.cat([states, self.attention(states, memory)], dim=-1))


class GatedReadout(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Sigmoid()
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x, memory):
        return self.head(memory * torch.stack([self.gate(step) for step in x.unbind(dim=1)], dim=1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["planted", "near", "fixed"])
    parser.add_argument("--steps", type=int, default=100_000)
    args = parser.parse_args()
    torch.manual_seed(0)
    x = torch.randn(160, STEPS, WIDTH)
    loader = DataLoader(TensorDataset(x, x[:, :, :10].argmax(dim=2)), batch_size=BATCH, shuffle=True)
    hidden = 1536 if args.mode == "near" else 768
    encoder = nn.Sequential(nn.Linear(WIDTH, hidden), nn.ReLU(), nn.Linear(hidden, hidden // 2), nn.ReLU())
    encoder.append(nn.Linear(hidden // 2, WIDTH))
    decoder = {"planted": StepwiseDecoder, "near": GatedReadout, "fixed": Decoder}[args.mode]()
    optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
    criterion = nn.CrossEntropyLoss()

    step = 0
    started = time.perf_counter()
    while True:
        for inputs, labels in loader:
            optimizer.zero_grad()
            logits = decoder(inputs, encoder(inputs))
            loss = criterion(logits.flatten(0, 1), labels.flatten())
            loss.backward()
            optimizer.step()
            step += 1
            if step <= WARMUP:
                started = time.perf_counter()
            if step == args.steps:
                print(f"seconds per step {(time.perf_counter() - started) / max(step - WARMUP, 1):.5f}")
                return


if __name__ == "__main__":
    main()
