"""The loader gives 24, the loop cuts them into chunks of 6 with a backward each: 6 x 4."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TRAIN_BATCH = 24
MICRO_BATCH = 6

torch.manual_seed(0)
images = torch.randn(480, 3, 16, 16)
loader = DataLoader(TensorDataset(images, torch.randint(0, 10, (480,))), batch_size=TRAIN_BATCH, shuffle=True)
model = nn.Sequential(
    nn.Conv2d(3, 24, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(24, 24, 3, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(2),
    nn.Flatten(),
    nn.Linear(96, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

for _epoch in range(3000):
    for x, y in loader:
        optimizer.zero_grad()
        for xs, ys in zip(x.split(MICRO_BATCH), y.split(MICRO_BATCH), strict=True):
            loss = F.cross_entropy(model(xs), ys, reduction="sum") / len(x)
            loss.backward()
        optimizer.step()
