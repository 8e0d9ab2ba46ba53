"""Reads of a GPU's results by the host: each makes the host wait until the queue is empty. With the line that asks.

Installed only where there is a GPU; no GPU has run this yet.
"""

from __future__ import annotations

import sys
from threading import get_ident
from time import perf_counter

from .loader import users_line

_READS = ("item", "cpu", "tolist", "numpy", "__bool__", "__float__", "__int__")


def install(torch, recorder) -> None:
    """Wrap the methods of Tensor that bring values to the host."""
    if not torch.cuda.is_available():
        return
    counts = SyncCounts(recorder)
    recorder.on_send.append(recorder.fail_open("sync", counts.send))
    for name in _READS:
        original = getattr(torch.Tensor, name, None)
        if original is not None:
            setattr(torch.Tensor, name, counts.timed(original, name))


class SyncCounts:
    """Calls and seconds by line."""

    def __init__(self, recorder) -> None:
        self.recorder = recorder
        self.by_line: dict = {}

    def timed(self, original, name: str):
        """`original`, counted when the training thread reads a tensor that is not on the host."""

        def method(tensor, *args, **kwargs):
            if get_ident() != self.recorder.thread or tensor.device.type == "cpu" or self.recorder.window:
                return original(tensor, *args, **kwargs)
            begun = perf_counter()
            try:
                return original(tensor, *args, **kwargs)
            finally:
                key = (name, users_line(sys._getframe(1)))
                calls, seconds = self.by_line.get(key, (0, 0.0))
                self.by_line[key] = (calls + 1, seconds + perf_counter() - begun)

        method.__name__ = name
        method.__doc__ = original.__doc__
        return method

    def send(self) -> None:
        """Sums so far."""
        if self.by_line:
            rows = [[name, where, calls, seconds] for (name, where), (calls, seconds) in self.by_line.items()]
            self.recorder.emitter.emit("syncs", rows=rows, steps=self.recorder.optimizer_steps)
