import chosen
from loop import train

train(chosen.TRAIN["batch_size"], chosen.ACCUMULATION)
