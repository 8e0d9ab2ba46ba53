"""The batch that is set is that of a step; the accumulation cuts it into pieces."""

import argparse

from loop import train

parser = argparse.ArgumentParser()
parser.add_argument("--train_batch_size", type=int, default=16)
parser.add_argument("--gradient_accumulation_steps", type=int, default=8)
args = parser.parse_args()
args.train_batch_size = args.train_batch_size // args.gradient_accumulation_steps
train(args.train_batch_size, args.gradient_accumulation_steps)
