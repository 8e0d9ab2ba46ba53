"""Wide layers, a plain loop. Says at its end what its layers computed in, whether it was compiled, and its loss."""

import argparse
import copy
import pickle

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Wide(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.out = nn.Linear(width, 10)
        self.seen = None

    def block(self, layer, x):
        return nn.functional.gelu(layer(x))

    def forward(self, x):
        for layer in self.layers:
            x = x + checkpoint(self.block, layer, x, use_reentrant=False)
        x = self.out(x)
        if not torch.compiler.is_compiling():
            self.seen = x.dtype
        return {"logits": x}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch_size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Wide(args.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    inputs, labels = torch.randn(args.batch_size * 8, args.width), torch.arange(args.batch_size * 8) % 10
    for step in range(args.steps):
        mine = slice(step % 8 * args.batch_size, (step % 8 + 1) * args.batch_size)
        logits = model(inputs[mine])["logits"]
        loss = nn.functional.cross_entropy(logits, labels[mine])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    average = pickle.loads(pickle.dumps(copy.deepcopy(model)))
    names = " ".join(model.state_dict()) == " ".join(average.state_dict())
    compiled = model._compiled_call_impl is not None
    print(
        f"inside {model.seen} outside {logits.dtype} compiled {compiled} copied {names} loss {loss.item():.6f}"
    )


if __name__ == "__main__":
    main()
