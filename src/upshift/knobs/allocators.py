"""Memory allocators that a run can be started with: the C library's own, told to keep what is freed, or another.

A training on a CPU allocates for every call. The C library gives large blocks back and faults them in again, and an
aligned allocation, which is what torch asks for, takes its long way. Others are looked for among what is installed.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from upshift import config
from upshift.errors import UsageError
from upshift.knobs.binding import Binding
from upshift.knobs.change import Change

KEEPING = "glibc-keeping"
_TUNABLES, _PRELOAD = config.ALLOCATION
_KEEP = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=8589934592"
_LIBRARIES = {
    "tcmalloc": ("libtcmalloc_minimal.so", "libtcmalloc.so"),
    "jemalloc": ("libjemalloc.so",),
    "mimalloc": ("libmimalloc.so",),
}
"""By name: how its files begin, the one to be preferred first."""


@cache
def installed() -> Mapping[str, str]:
    """Files by name of the allocators that this machine has beside the C library's."""
    files = [*_beside_python(), *_known_to_the_loader()]
    found = {}
    for name, beginnings in _LIBRARIES.items():
        fitting = [f for b in beginnings for f in files if f.name.startswith(b) and f.exists()]
        if fitting:
            found[name] = str(fitting[0])
    return found


def _beside_python() -> list[Path]:
    """Environments of conda bring libraries of their own."""
    return sorted(file for folder in config.library_folders() for file in folder.glob("lib*malloc*.so*"))


def _known_to_the_loader() -> list[Path]:
    """By the cache of the dynamic loader, which has those of this machine's own kind first."""
    try:
        told = subprocess.run(
            ["/sbin/ldconfig", "-p"], capture_output=True, text=True, timeout=10, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [Path(line.rpartition("=> ")[2].strip()) for line in told.splitlines() if "malloc" in line]


@dataclass(frozen=True)
class Allocator(Binding):
    """Variables of the environment, by the allocator's name."""

    def __str__(self) -> str:
        return "environment"

    def now(self, change: Change) -> object:
        """As set for this run, or by the user; None: the C library's, as it comes."""
        said = {**config.allocation(), **change.environment}
        preloaded = said.get(_PRELOAD, "").replace(":", " ").split()
        for name, beginnings in _LIBRARIES.items():
            if any(os.path.basename(file).startswith(beginnings) for file in preloaded):
                return name
        tunables = said.get(_TUNABLES, "")
        if _KEEP in tunables:
            return KEEPING
        return tunables if "malloc" in tunables else None

    def apply(self, change: Change, value: object) -> Change:
        """With this allocator, and nothing of another that was tried before."""
        others = {k: v for k, v in change.environment.items() if k not in config.ALLOCATION}
        return replace(change, environment={**others, **variables(str(value))})


def variables(name: str) -> dict[str, str]:
    """That start a run with it, beside what the user has in them."""
    users = config.allocation()
    if name == KEEPING:
        return {_TUNABLES: ":".join(filter(None, (users.get(_TUNABLES), _KEEP)))}
    if name not in installed():
        have = ", ".join((KEEPING, *installed()))
        raise UsageError(f"no allocator called {name!r} is installed", hint=f"there is: {have}")
    return {_PRELOAD: ":".join(filter(None, (installed()[name], users.get(_PRELOAD))))}
