"""Saving, logging, clipping: functions known by name, timed where they are imported."""

from __future__ import annotations

import builtins
import logging

from ..arrival import when_imported
from ..events import CHECKPOINT, LOGGING, OPTIMIZER
from .wrap import timed_function, wrap_method

# module, attribute path, phase
_TABLE = (
    ("torch", "save", CHECKPOINT),
    ("torch.distributed.checkpoint", "save", CHECKPOINT),
    ("safetensors.torch", "save_file", CHECKPOINT),
    ("safetensors.torch", "save_model", CHECKPOINT),
    ("transformers.modeling_utils", "PreTrainedModel.save_pretrained", CHECKPOINT),
    ("transformers.trainer", "Trainer._save_checkpoint", CHECKPOINT),
    ("transformers.trainer", "Trainer.log", LOGGING),
    ("lightning.pytorch.trainer.trainer", "Trainer.save_checkpoint", CHECKPOINT),
    ("pytorch_lightning.trainer.trainer", "Trainer.save_checkpoint", CHECKPOINT),
    ("torch.utils.tensorboard.writer", "SummaryWriter.add_scalar", LOGGING),
    ("torch.utils.tensorboard.writer", "SummaryWriter.add_scalars", LOGGING),
    ("torch.utils.tensorboard.writer", "SummaryWriter.add_histogram", LOGGING),
    ("torch.utils.tensorboard.writer", "SummaryWriter.add_image", LOGGING),
    ("wandb.sdk.wandb_run", "Run.log", LOGGING),
    ("tqdm.std", "tqdm.refresh", LOGGING),
    ("torch.nn.utils", "clip_grad_norm_", OPTIMIZER),
    ("torch.nn.utils", "clip_grad_value_", OPTIMIZER),
)


def install(torch, recorder) -> None:
    """Wrap what is there now, the rest when the user imports it."""
    for module_name, path, phase in _TABLE:
        when_imported(module_name, _wrapper(torch, recorder, path, phase))
    wrap_method(torch, recorder, logging.Logger, "handle", LOGGING)
    builtins.print = timed_function(torch, recorder, builtins.print, LOGGING)


def _wrapper(torch, recorder, path, phase):
    def wrap(module) -> None:
        owner = module
        *owners, name = path.split(".")
        for part in owners:
            owner = getattr(owner, part, None)
        if owner is not None:
            wrap_method(torch, recorder, owner, name, phase)

    return wrap
