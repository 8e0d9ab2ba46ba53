import os

from loop import train


class Settings:
    batch_size = int(os.environ.get("BATCH_SIZE", 2))
    grad_accum = int(os.getenv("GRAD_ACCUM", "8"))


train(Settings.batch_size, Settings.grad_accum)
