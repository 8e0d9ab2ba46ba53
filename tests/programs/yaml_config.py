"""Settings from a YAML file: 7 x 4.

Every step is logged through a handler that waits for its server, which takes most of a step.
"""

import argparse
import logging
import time
from pathlib import Path

import torch
import yaml
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

log = logging.getLogger("train")


class TrackerHandler(logging.Handler):
    """Sends each record to the experiment tracker and waits for the answer."""

    def __init__(self, url):
        super().__init__()
        self.url = url
        self.sent = 0

    def emit(self, record):
        time.sleep(0.02)  # <- time goes here
        self.sent += len(self.format(record))


def build_model(cfg):
    layers, width = [], 32
    for _ in range(cfg["layers"]):
        layers += [nn.Linear(width, cfg["hidden"]), nn.ReLU()]
        width = cfg["hidden"]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def main():
    parser = argparse.ArgumentParser()
    default = Path(__file__).with_name("yaml_config.yaml")
    parser.add_argument("--config", type=Path, default=default)
    with parser.parse_args().config.open() as stream:
        cfg = yaml.safe_load(stream)
    training = cfg["training"]
    log.setLevel(logging.INFO)
    log.addHandler(TrackerHandler(cfg["logging"]["tracker"]))
    torch.manual_seed(cfg["seed"])

    x = torch.randn(700, 32)
    loader = DataLoader(TensorDataset(x, x.sum(1)), training["batch_size"], shuffle=True)
    model = build_model(cfg["model"])
    optimizer = torch.optim.Adam(model.parameters(), lr=training["learning_rate"])
    accum, step, micro = training["gradient_accumulation_steps"], 0, 0
    while step < training["max_steps"]:
        for features, target in loader:
            loss = nn.functional.mse_loss(model(features).squeeze(1), target)
            (loss / accum).backward()
            micro += 1
            if micro % accum == 0:
                optimizer.step()
                optimizer.zero_grad()
                step += 1
                if step % cfg["logging"]["every"] == 0:
                    log.info("step %d loss %.4f", step, loss.item())


if __name__ == "__main__":
    main()
