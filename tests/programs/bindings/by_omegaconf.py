import sys

from loop import train
from omegaconf import OmegaConf

cfg = OmegaConf.load(sys.argv[1])
train(cfg.training.batch, cfg.training.accum_steps)
