"""The accumulation is an argument of Accelerator; the batch of the DataLoader."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=8)
data = TensorDataset(torch.randn(4096, 16), torch.randint(0, 5, (4096,)))
loader = DataLoader(data, batch_size=2, shuffle=True)
model = nn.Linear(16, 5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
while True:
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
