"""One optimizer for each part of the model, all stepped in each iteration: 10 x 2."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUM = 2

torch.manual_seed(0)
ids = torch.randint(0, 400, (800, 24))
loader = DataLoader(TensorDataset(ids, ids.roll(-1, dims=1)), batch_size=10, shuffle=True)


class Model(nn.Module):
    def __init__(self, vocab=400, dim=48):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, 96, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(96, 96), nn.GELU())
        self.head = nn.Linear(96, vocab)

    def forward(self, tokens):
        hidden, _ = self.rnn(self.embed(tokens))
        return self.head(self.mlp(hidden))


model = Model()
optimizers = [
    torch.optim.Adagrad(model.embed.parameters(), lr=0.05),
    torch.optim.Adam(model.rnn.parameters(), lr=1e-3),
    torch.optim.AdamW(model.mlp.parameters(), lr=1e-3),
    torch.optim.SGD(model.head.parameters(), lr=0.1, momentum=0.9),
]

for _epoch in range(3000):
    for i, (tokens, targets) in enumerate(loader):
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten()) / ACCUM
        loss.backward()
        if (i + 1) % ACCUM == 0:
            for optimizer in optimizers:
                optimizer.step()
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=True)
