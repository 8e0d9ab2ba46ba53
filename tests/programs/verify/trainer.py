"""HF Trainer over texts of unequal length. `with_kwargs`: its loss gets num_items_in_batch; `without`: not.

`ignores`: its model takes it and its loss ignores it, as BERT's classifiers do; texts of equal length.
"""

import argparse
import random

import torch
from torch import nn
from transformers import Trainer, TrainingArguments
from transformers.modeling_outputs import CausalLMOutput


class WithKwargs(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.out = nn.Linear(16, 50)

    def loss(self, logits, labels, items):
        flat = logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        if items is None:
            return nn.functional.cross_entropy(*flat)
        return nn.functional.cross_entropy(*flat, reduction="sum") / items

    def forward(self, input_ids, labels=None, **kwargs):
        logits = self.out(torch.tanh(self.embedding(input_ids).cumsum(1)))
        return CausalLMOutput(loss=self.loss(logits, labels, kwargs.get("num_items_in_batch")), logits=logits)


class WithoutKwargs(WithKwargs):
    def forward(self, input_ids, labels=None):
        logits = self.out(torch.tanh(self.embedding(input_ids).cumsum(1)))
        return CausalLMOutput(loss=self.loss(logits, labels, None), logits=logits)


class IgnoresKwargs(WithKwargs):
    def loss(self, logits, labels, items):
        return super().loss(logits, labels, None)


MODELS = {"with_kwargs": WithKwargs, "without": WithoutKwargs, "ignores": IgnoresKwargs}


def collate(rows):
    longest = max(len(row["input_ids"]) for row in rows)
    ids = [row["input_ids"] + [0] * (longest - len(row["input_ids"])) for row in rows]
    labels = [row["input_ids"] + [-100] * (longest - len(row["input_ids"])) for row in rows]
    return {"input_ids": torch.tensor(ids), "labels": torch.tensor(labels)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=list(MODELS))
    parser.add_argument("--per_device_train_batch_size", type=int, default=2)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=4)
    args = parser.parse_args()
    rng = random.Random(0)
    lengths = [9] if args.mode == "ignores" else [4, 9, 40]
    data = [{"input_ids": [rng.randrange(1, 50) for _ in range(rng.choice(lengths))]} for _ in range(128)]
    torch.manual_seed(0)
    model = MODELS[args.mode]()
    arguments = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=args.per_device_train_batch_size,
        gradient_accumulation_steps=args.gradient_accumulation_steps,
        max_steps=200,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_steps=1000,
        remove_unused_columns=False,
        disable_tqdm=True,
    )
    Trainer(model=model, args=arguments, train_dataset=data, data_collator=collate).train()


if __name__ == "__main__":
    main()
