"""The accumulation follows from the tokens of a step."""

import argparse

from loop import train

LENGTH = 64
parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=2)
parser.add_argument("--total_batch_tokens", type=int, default=1024)
args = parser.parse_args()
assert args.total_batch_tokens % (args.batch_size * LENGTH) == 0
train(args.batch_size, args.total_batch_tokens // (args.batch_size * LENGTH))
