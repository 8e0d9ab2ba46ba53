"""A loop over the samples inside the batch, since their sizes differ: 8 x 1.

The model is called once a sample; the eight losses are summed for one backward.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Graphs(Dataset):
    """Random graphs with 10 to 25 nodes: features, adjacency, label."""

    def __len__(self):
        return 400

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        nodes = 10 + index % 16
        adjacency = (torch.rand(nodes, nodes, generator=generator) < 0.2).float()
        return torch.randn(nodes, 16, generator=generator), adjacency, index % 3


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin1, self.lin2, self.out = nn.Linear(16, 64), nn.Linear(64, 64), nn.Linear(64, 3)

    def forward(self, nodes, adjacency):
        degree = adjacency.sum(1, keepdim=True) + 1
        h = F.relu(self.lin1((adjacency @ nodes + nodes) / degree))
        h = F.relu(self.lin2((adjacency @ h + h) / degree))
        return self.out(h.mean(dim=0))


torch.manual_seed(0)
loader = DataLoader(Graphs(), batch_size=8, shuffle=True, collate_fn=list)
model = GraphNet()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _epoch in range(5000):
    for batch in loader:
        optimizer.zero_grad()
        losses = []
        for nodes, adjacency, label in batch:
            logits = model(nodes, adjacency)
            losses.append(F.cross_entropy(logits, torch.tensor(label)))
        loss = torch.stack(losses).sum() / len(batch)
        loss.backward()
        optimizer.step()
