"""No optimizer and no module: raw tensors updated under no_grad: 20 x 3."""

import torch
import torch.nn.functional as F

BATCH, ACCUM, LR = 20, 3, 0.05

torch.manual_seed(2147483647)
words = torch.randint(0, 27, (6000, 4))
X, Y = words[:, :3], words[:, 3]

g = torch.Generator().manual_seed(42)
C = torch.randn((27, 24), generator=g)
W1 = torch.randn((72, 600), generator=g) * 0.1
b1 = torch.randn(600, generator=g) * 0.01
W2 = torch.randn((600, 600), generator=g) * 0.04
W3 = torch.randn((600, 27), generator=g) * 0.01
b3 = torch.zeros(27)
parameters = [C, W1, b1, W2, W3, b3]
for p in parameters:
    p.requires_grad = True

for i in range(100_000):
    for p in parameters:
        p.grad = None
    for _ in range(ACCUM):
        ix = torch.randint(0, X.shape[0], (BATCH,), generator=g)
        emb = C[X[ix]]
        h = torch.tanh(emb.view(emb.shape[0], -1) @ W1 + b1)
        h = torch.tanh(h @ W2)
        logits = h @ W3 + b3
        loss = F.cross_entropy(logits, Y[ix]) / ACCUM
        loss.backward()
    with torch.no_grad():
        for p in parameters:
            p -= LR * p.grad
    if i % 1000 == 0:
        print(f"{i}: {loss.item() * ACCUM:.4f}")
