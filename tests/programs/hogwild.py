"""Hogwild: two spawned children train one shared model while the parent only waits: 9 x 1 each."""

import torch
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(120, 640)
        self.fc2 = nn.Linear(640, 640)
        self.fc3 = nn.Linear(640, 10)

    def forward(self, x):
        x = F.relu(self.fc2(F.relu(self.fc1(x))))
        return F.log_softmax(self.fc3(x), dim=1)


def train(rank, model):
    torch.manual_seed(1 + rank)
    dataset = TensorDataset(torch.randn(900, 120), torch.randint(0, 10, (900,)))
    loader = DataLoader(dataset, batch_size=9, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    for _epoch in range(5000):
        model.train()
        for data, target in loader:
            optimizer.zero_grad()
            loss = F.nll_loss(model(data), target)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    mp.set_start_method("spawn")
    model = Net()
    model.share_memory()
    processes = []
    for rank in range(2):
        p = mp.Process(target=train, args=(rank, model))
        p.start()
        processes.append(p)
    for p in processes:
        p.join()
