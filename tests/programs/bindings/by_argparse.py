import argparse

from loop import train

parser = argparse.ArgumentParser()
parser.add_argument("-b", "--batch-size", type=int, default=2)
parser.add_argument("--grad-accum", type=int, default=8)
args = parser.parse_args()
train(args.batch_size, args.grad_accum)
