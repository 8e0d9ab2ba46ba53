"""The batch-size finders that frameworks bring, on the recurrent training of trainers.py. For benchmarks/tune.py.

They look for the largest micro-batch that runs, not the fastest, and know no effective batch. Prints the one found.
"""

import argparse
import logging
import tempfile
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader
from trainers import Clips, Recurrent

WIDTH = 384


def hugging_face(batch_size: int, grad_accum: int) -> int:
    """`auto_find_batch_size`: begins with the given size and makes it smaller when memory runs out."""
    from transformers import Trainer, TrainingArguments

    class WithLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Recurrent()

        def forward(self, x, y):
            return {"loss": nn.functional.cross_entropy(self.inner(x), y)}

    def collate(rows):
        return {"x": torch.stack([x for x, _ in rows]), "y": torch.tensor([y for _, y in rows])}

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=batch_size,
            gradient_accumulation_steps=grad_accum,
            auto_find_batch_size=True,
            max_steps=3,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        )
        trainer = Trainer(WithLoss(), arguments, train_dataset=Clips(WIDTH, False), data_collator=collate)
        trainer.train()
        return trainer._train_batch_size


def lightning(batch_size: int, grad_accum: int) -> int:
    """`Tuner.scale_batch_size`: doubles until memory or the dataset ends."""
    import lightning as L
    from lightning.pytorch.tuner import Tuner

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Recurrent()
            self.batch_size = batch_size

        def training_step(self, batch, index):
            x, y = batch
            return nn.functional.cross_entropy(self.model(x), y)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

        def train_dataloader(self):
            return DataLoader(Clips(WIDTH, False), batch_size=self.batch_size)

    module = Module()
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            accumulate_grad_batches=grad_accum,
            default_root_dir=folder,
            max_steps=3,
        )
        return Tuner(trainer).scale_batch_size(module, init_val=batch_size) or batch_size


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("finder", choices=["hugging_face", "lightning"])
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--grad-accum", type=int, default=8)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    found = {"hugging_face": hugging_face, "lightning": lightning}[options.finder](
        options.batch_size, options.grad_accum
    )
    print(f"found {found}")


if __name__ == "__main__":
    main()
