"""HF's Trainer, set up in code."""

import torch
from torch import nn
from transformers import Trainer, TrainingArguments


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(16, 5)

    def forward(self, x, labels):
        logits = self.net(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def main():
    data = [{"x": torch.randn(16), "labels": i % 5} for i in range(512)]
    args = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=2,
        gradient_accumulation_steps=8,
        max_steps=100_000,
        report_to=[],
        use_cpu=True,
    )
    Trainer(Model(), args, train_dataset=data).train()


main()
