"""A corpus reshaped to [time, batch], LSTM with the batch in dim 1, hidden state kept: 17 x 1.

Slices of 21 time steps; no DataLoader.
"""

import torch
from torch import nn

ntokens, batch_size, bptt, lr = 200, 17, 21, 1.0


class RNNModel(nn.Module):
    def __init__(self, ninp=48, nhid=64, nlayers=2):
        super().__init__()
        self.encoder = nn.Embedding(ntokens, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers)
        self.decoder = nn.Linear(nhid, ntokens)
        self.shape = (nlayers, nhid)

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.encoder(input), hidden)
        return self.decoder(output).view(-1, ntokens), hidden

    def init_hidden(self, bsz):
        layers, width = self.shape
        return torch.zeros(layers, bsz, width), torch.zeros(layers, bsz, width)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous()


def repackage_hidden(h):
    return tuple(v.detach() for v in h)


def get_batch(source, i):
    return source[i : i + bptt], source[i + 1 : i + 1 + bptt].view(-1)


torch.manual_seed(1111)
train_data = batchify(torch.randint(0, ntokens, (17 * 2101,)), batch_size)
model = RNNModel()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=lr)


def train():
    model.train()
    hidden = model.init_hidden(batch_size)
    for i in range(0, train_data.size(0) - 1, bptt):
        data, targets = get_batch(train_data, i)
        optimizer.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()


for _epoch in range(1, 2000):
    train()
