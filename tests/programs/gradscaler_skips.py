"""A GradScaler that works, on the CPU in float16: 8 x 2.

Its scale grows every sixth step until it overflows, so about one step in seven is skipped.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUM = 2

torch.manual_seed(0)
x = torch.randn(640, 64)
loader = DataLoader(TensorDataset(x, x.roll(1, dims=1)), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**26, growth_interval=6)

done = skipped = 0
for epoch in range(3000):
    for i, (inputs, target) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.float16):
            output = model(inputs)
            loss = F.mse_loss(output.float(), target) / ACCUM
        scaler.scale(loss).backward()
        if (i + 1) % ACCUM == 0:
            before = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            done += 1
            skipped += scaler.get_scale() < before
    if epoch % 50 == 0:
        print(f"epoch {epoch}: {done} steps, {skipped} skipped, scale {scaler.get_scale():.0f}")
