"""Which part this process plays: its rank and world, once it trains."""

from __future__ import annotations

import os


def rank_and_world(torch) -> tuple:
    """(rank, world_size) as torch.distributed knows them, else as the launcher said, else (0, 1)."""
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    try:
        return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    except ValueError:
        return 0, 1
