import typer
from loop import train


def main(batch_size: int = 2, grad_accum: int = 8):
    train(batch_size, grad_accum)


typer.run(main)
