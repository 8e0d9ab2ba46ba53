"""Settings are globals; a configurator file, and then the command line, may overrule them."""

import sys

from loop import train

batch_size = 12
gradient_accumulation_steps = 40
for argument in sys.argv[1:]:
    if argument.endswith(".py"):
        with open(argument) as stream:
            exec(stream.read())
    else:
        name, value = argument.lstrip("-").split("=")
        globals()[name] = int(value)
train(batch_size, gradient_accumulation_steps)
