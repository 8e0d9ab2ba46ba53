from dataclasses import dataclass

from loop import train
from trl import TrlParser


@dataclass
class Arguments:
    per_device_train_batch_size: int = 1
    gradient_accumulation_steps: int = 1


(args,) = TrlParser(Arguments).parse_args_and_config()
train(args.per_device_train_batch_size, args.gradient_accumulation_steps)
