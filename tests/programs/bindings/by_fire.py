import fire
from loop import train


def main(batch_size=2, accumulation=8):
    train(batch_size, accumulation)


fire.Fire(main)
