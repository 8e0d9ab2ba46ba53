"""A GAN on vectors, two optimizers stepped in turn: 16 x 1, three backwards an iteration."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

nz, ndata, nf = 20, 64, 256
batch_size = 16


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Linear(nz, nf), nn.BatchNorm1d(nf), nn.ReLU(True), nn.Linear(nf, ndata), nn.Tanh()
        )

    def forward(self, noise):
        return self.main(noise)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Linear(ndata, nf), nn.LeakyReLU(0.2), nn.Linear(nf, nf), nn.LeakyReLU(0.2)
        )
        self.out = nn.Linear(nf, 1)

    def forward(self, x):
        return torch.sigmoid(self.out(self.main(x))).view(-1)


def main():
    torch.manual_seed(999)
    dataset = TensorDataset(torch.randn(960, ndata).tanh())
    dataloader = DataLoader(dataset, batch_size=batch_size, shuffle=True, drop_last=True)
    netG, netD = Generator(), Discriminator()
    criterion = nn.BCELoss()
    optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))

    for _epoch in range(3000):
        for (real,) in dataloader:
            # (1) Update D: maximize log(D(x)) + log(1 - D(G(z)))
            netD.zero_grad()
            label = torch.ones(real.size(0))
            errD_real = criterion(netD(real), label)
            errD_real.backward()
            fake = netG(torch.randn(real.size(0), nz))
            label.fill_(0.0)
            errD_fake = criterion(netD(fake.detach()), label)
            errD_fake.backward()
            optimizerD.step()

            # (2) Update G: maximize log(D(G(z)))
            netG.zero_grad()
            label.fill_(1.0)
            errG = criterion(netD(fake), label)
            errG.backward()
            optimizerG.step()


if __name__ == "__main__":
    main()
