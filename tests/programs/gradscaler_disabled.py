"""A GradScaler that is switched off because there is no GPU: 5 x 3."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
use_amp = device == "cuda"
iters_to_accumulate = 3

torch.manual_seed(0)
x = torch.randn(600, 1, 24, 24)
loader = DataLoader(TensorDataset(x, x.mean(dim=(1, 2, 3))), batch_size=5, shuffle=True)
model = nn.Sequential(
    nn.Conv2d(1, 16, 5, padding=2),
    nn.ReLU(),
    nn.Conv2d(16, 16, 5, stride=2),
    nn.ReLU(),
    nn.Flatten(),
    nn.LazyLinear(1),
).to(device)
model(x[:1].to(device))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler(device, enabled=use_amp)

for _epoch in range(3000):
    for i, (images, target) in enumerate(loader):
        images, target = images.to(device), target.to(device)
        with torch.autocast(device_type=device, dtype=torch.float16, enabled=use_amp):
            loss = F.mse_loss(model(images).squeeze(1), target) / iters_to_accumulate
        scaler.scale(loss).backward()
        if (i + 1) % iters_to_accumulate == 0:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
