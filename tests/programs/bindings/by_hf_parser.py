from dataclasses import dataclass

from loop import train
from transformers import HfArgumentParser


@dataclass
class Arguments:
    train_batch_size: int = 2
    gradient_accumulation_steps: int = 8


(args,) = HfArgumentParser(Arguments).parse_args_into_dataclasses()
train(args.train_batch_size, args.gradient_accumulation_steps)
