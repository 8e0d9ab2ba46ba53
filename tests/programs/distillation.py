"""Distillation: a frozen teacher under no_grad in every step: 10 x 2.

The teacher's forward is most of the step; it is training, not evaluation.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUM, TEMPERATURE = 2, 3.0


def convnet(width, depth):
    layers = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def distill_loss(student_logits, teacher_logits, labels):
    soft = F.kl_div(
        F.log_softmax(student_logits / TEMPERATURE, dim=1),
        F.softmax(teacher_logits / TEMPERATURE, dim=1),
        reduction="batchmean",
    )
    return 0.7 * TEMPERATURE**2 * soft + 0.3 * F.cross_entropy(student_logits, labels)


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(400, 3, 20, 20), torch.randint(0, 10, (400,)))
    loader = DataLoader(data, batch_size=10, shuffle=True)
    teacher = convnet(width=40, depth=5).eval()
    student = convnet(width=8, depth=1).train()
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)
    for _epoch in range(3000):
        for i, (images, labels) in enumerate(loader):
            with torch.no_grad():
                teacher_logits = teacher(images)
            loss = distill_loss(student(images), teacher_logits, labels)
            (loss / ACCUM).backward()
            if (i + 1) % ACCUM == 0:
                optimizer.step()
                optimizer.zero_grad()


if __name__ == "__main__":
    main()
