"""AdamW(fused=True), a scheduler and clipping: 15 x 2."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

GRAD_ACCUM_STEPS = 2


def main():
    torch.manual_seed(0)
    ids = torch.randint(0, 256, (600, 33))
    loader = DataLoader(TensorDataset(ids), batch_size=15, shuffle=True)
    model = nn.Sequential(
        nn.Embedding(256, 64),
        nn.TransformerEncoderLayer(64, nhead=4, dim_feedforward=128, dropout=0.0, batch_first=True),
        nn.Linear(64, 256),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=1000)

    for _epoch in range(3000):
        for i, (batch,) in enumerate(loader):
            inputs, targets = batch[:, :-1], batch[:, 1:]
            logits = model(inputs)
            loss = F.cross_entropy(logits.reshape(-1, 256), targets.reshape(-1))
            (loss / GRAD_ACCUM_STEPS).backward()
            if (i + 1) % GRAD_ACCUM_STEPS == 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad(set_to_none=True)


if __name__ == "__main__":
    main()
