"""torchdata's StatefulDataLoader, so that a run can be resumed in the middle: 7 x 5."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader

ACCUM = 5


def main():
    torch.manual_seed(0)
    x = torch.randn(700, 40)
    loader = StatefulDataLoader(TensorDataset(x, x.cumsum(1)), batch_size=7, shuffle=True)
    model = nn.Sequential(nn.Linear(40, 256), nn.SiLU(), nn.Linear(256, 256), nn.SiLU())
    model.append(nn.Linear(256, 40))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    position = None
    for epoch in range(3000):
        for i, (inputs, targets) in enumerate(loader):
            loss = F.smooth_l1_loss(model(inputs), targets)
            (loss / ACCUM).backward()
            if (i + 1) % ACCUM == 0:
                optimizer.step()
                optimizer.zero_grad()
        position = loader.state_dict()
        if epoch % 200 == 0:
            print(f"epoch {epoch} loss {loss.item():.4f} ({len(position)} keys of loader state)")


if __name__ == "__main__":
    main()
