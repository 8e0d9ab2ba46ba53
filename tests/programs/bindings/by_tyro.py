from dataclasses import dataclass

import tyro
from loop import train


@dataclass
class Args:
    minibatch_size: int = 2
    grad_accum_steps: int = 8


args = tyro.cli(Args)
train(args.minibatch_size, args.grad_accum_steps)
