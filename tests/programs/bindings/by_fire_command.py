import fire
from loop import train


def fit(batch_size=2, accumulation=8):
    train(batch_size, accumulation)


if __name__ == "__main__":
    fire.Fire()
