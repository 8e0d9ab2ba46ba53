"""The only reader and writer of environment variables on upshift's side of the wall; the cores it was given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

SESSION = "UPSHIFT_SESSION"
"""Set in the child: path of the session file. Its absence keeps the agent asleep."""

SCRATCH = "UPSHIFT_SCRATCH"
"""Where scratch folders are made, if not in the system's temporary folder."""

_CACHES = ("XDG_CACHE_HOME", "HF_HOME", "TORCH_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")

ALLOCATION = ("GLIBC_TUNABLES", "LD_PRELOAD")
"""What decides how a program allocates memory."""

# A probe must not appear as a run on somebody's server. Trackers keep working, into scratch.
_OFFLINE_TRACKERS = {
    "WANDB_MODE": "offline",
    "COMET_MODE": "offline",
    "NEPTUNE_MODE": "offline",
    "CLEARML_OFFLINE_MODE": "1",
    "SWANLAB_MODE": "offline",
}


def scratch_base() -> Path | None:
    """The folder the user wants scratch in, if they said so."""
    value = os.environ.get(SCRATCH)
    return Path(value).resolve() if value else None


def cache_folders() -> tuple[Path, ...]:
    """Download and compile caches: a run fills them as it would without upshift."""
    folders = [Path(os.environ[name]) for name in _CACHES if os.environ.get(name)]
    folders.append(Path.home() / ".cache")
    return tuple(dict.fromkeys(f.resolve() for f in folders if f.is_dir()))


def child_environment(inject: Path, session_file: Path, *, probe: bool) -> dict[str, str]:
    """The user's environment plus what arms the agent; for a probe, trackers are set offline."""
    environment = dict(os.environ)
    before = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = str(inject) + (os.pathsep + before if before else "")
    environment[SESSION] = str(session_file)
    if probe:
        for name, value in _OFFLINE_TRACKERS.items():
            environment.setdefault(name, value)
    return environment


def variable(name: str) -> str | None:
    """What the user has set that a program asks for by this name."""
    return os.environ.get(name)


def threads() -> int | None:
    """OMP_NUM_THREADS, if the user has set it to a number."""
    value = os.environ.get("OMP_NUM_THREADS", "")
    return int(value) if value.isdigit() and int(value) else None


def allocation() -> dict[str, str]:
    """What the user has said about it."""
    return {name: os.environ[name] for name in ALLOCATION if os.environ.get(name)}


def library_folders() -> tuple[Path, ...]:
    """Shared libraries that come with the user's environment, not with the machine."""
    prefix = os.environ.get("CONDA_PREFIX")
    return (Path(prefix) / "lib",) if prefix else ()


def cores() -> int:
    """Cores that this process, and so a run it starts, may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def search_path(environment: Mapping[str, str] = os.environ) -> str | None:
    """PATH, for finding the user's program."""
    return environment.get("PATH")
