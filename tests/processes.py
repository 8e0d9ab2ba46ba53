"""Which processes still live, seen from a test."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from pathlib import Path

import psutil


def announced(output: str) -> list[int]:
    """Pids a program printed as `word PID`."""
    found = [int(n) for n in re.findall(r"^(?:helper|daemon|pid) (\d+)", output, re.M)]
    assert found, f"no pid announced in {output!r}"
    return found


def alive(pids: Iterable[int], patience: float = 5.0) -> list[int]:
    """Those of `pids` that still run after `patience` seconds; zombies do not count."""
    deadline = time.monotonic() + patience
    while True:
        living = [p for p in pids if _runs(p)]
        if not living or time.monotonic() > deadline:
            return living
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def below(pid: int) -> list[int]:
    """All descendants of a process now."""
    try:
        return [p.pid for p in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def wait_for(path: Path, patience: float = 60.0) -> None:
    """Until a file exists."""
    deadline = time.monotonic() + patience
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.05)
