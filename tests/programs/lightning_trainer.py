"""Lightning's Trainer with accumulate_grad_batches: 9 x 2."""

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class AutoEncoder(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(196, 256), nn.ReLU(), nn.Linear(256, 12))
        self.decoder = nn.Sequential(nn.Linear(12, 256), nn.ReLU(), nn.Linear(256, 196))

    def forward(self, x):
        return self.encoder(x)

    def training_step(self, batch, batch_idx):
        (x,) = batch
        loss = F.mse_loss(self.decoder(self.encoder(x)), x)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main():
    L.seed_everything(0)
    loader = DataLoader(TensorDataset(torch.randn(720, 196)), batch_size=9, shuffle=True)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=100_000,
        accumulate_grad_batches=2,
        gradient_clip_val=1.0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
    )
    trainer.fit(AutoEncoder(), loader)


if __name__ == "__main__":
    main()
