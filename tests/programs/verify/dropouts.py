"""Dropout in the places where it hides: nn.LSTM's own, attention's, a transformer layer's, LoRA's."""

import argparse

import torch
from torch import nn


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(12, 16, num_layers=2, dropout=0.4, batch_first=True)
        self.out = nn.Linear(16, 3)

    def forward(self, x):
        return self.out(self.lstm(x)[0][:, -1])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.TransformerEncoderLayer(12, 2, 24, dropout=0.3, batch_first=True)
        self.attention = nn.MultiheadAttention(12, 2, dropout=0.3, batch_first=True)
        self.out = nn.Linear(12, 3)

    def forward(self, x):
        x = self.inner(x)
        x = x + nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.3 if self.training else 0.0)
        return self.out(self.attention(x, x, x)[0].mean(1))


def lora():
    from peft import LoraConfig, get_peft_model

    model = nn.Sequential(nn.Flatten(), nn.Linear(120, 16), nn.ReLU(), nn.Linear(16, 3))
    return get_peft_model(model, LoraConfig(r=4, lora_dropout=0.3, target_modules=["1", "3"]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["lstm", "attention", "lora"])
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--grad-accum", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(1)
    model = {"lstm": Lstm, "attention": Attention, "lora": lora}[args.mode]()
    inputs, labels = torch.randn(256, 10, 12), torch.randint(0, 3, (256,))
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    at = 0
    while True:
        for _ in range(args.grad_accum):
            rows = slice(at, at + args.batch)
            at = (at + args.batch) % 256
            loss = nn.functional.cross_entropy(model(inputs[rows]), labels[rows])
            (loss / args.grad_accum).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main()
