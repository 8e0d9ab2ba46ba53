"""A config module."""

ACCUMULATION = 8
TRAIN = {"batch_size": 2, "lr": 1e-3}
