import jsonargparse
from loop import train

parser = jsonargparse.ArgumentParser()
parser.add_argument("--train.batch_size", type=int, default=2)
parser.add_argument("--train.accumulate", type=int, default=8)
args = parser.parse_args()
train(args.train.batch_size, args.train.accumulate)
