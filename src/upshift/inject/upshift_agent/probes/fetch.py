"""Where a batch's making goes: waiting for storage, decoding, collating. Timed where it happens, in workers too.

Getting the samples is timed by the wall, by the CPU and by the time spent queueing for a core: what is neither CPU
nor queue is waiting for storage. One batch in a while is timed, and sent from whichever process makes batches.
"""

from __future__ import annotations

import functools
import os
from time import perf_counter, thread_time

from ..arrival import when_imported

_EVERY_SECONDS = 0.1
_SEND_SECONDS = 0.5


def install(torch, recorder) -> None:
    """Wrap the fetchers, which loaders and their workers share."""
    when_imported("torch.utils.data._utils.fetch", lambda module: _wrap(module, recorder))


def _wrap(module, recorder) -> None:
    sums = _Sums(recorder)
    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        fetcher = getattr(module, name)
        fetcher.fetch = _timed(fetcher.fetch, sums)


def _timed(original, sums):
    @functools.wraps(original)
    def fetch(self, index):
        if perf_counter() < sums.next_at:
            return original(self, index)
        collate = self.collate_fn
        collated = []

        def timed_collate(data):
            collated.append(perf_counter())
            collated.append(thread_time())
            collated.append(_queued())
            return collate(data)

        self.collate_fn = timed_collate
        begun, cpu, queued = perf_counter(), thread_time(), _queued()
        try:
            batch = original(self, index)
        finally:
            self.collate_fn = collate
        if collated:
            sums.add(
                collated[0] - begun,
                collated[1] - cpu,
                collated[2] - queued,
                perf_counter() - collated[0],
                len(index) if isinstance(index, (list, tuple)) else 1,
            )
        return batch

    return fetch


def _queued() -> float:
    """Seconds this thread has waited for a core so far."""
    try:
        with open("/proc/thread-self/schedstat", "rb") as stream:
            return int(stream.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


class _Sums:
    """Totals of this process since the last event."""

    def __init__(self, recorder) -> None:
        self.recorder = recorder
        self.pid = os.getpid()
        self._clear()
        self.sent = 0.0
        self.next_at = 0.0

    def _clear(self) -> None:
        self.batches = self.samples = 0
        self.wall = self.cpu = self.queued = self.collate = 0.0

    def add(self, wall: float, cpu: float, queued: float, collate: float, samples: int) -> None:
        if os.getpid() != self.pid:  # a forked worker starts anew
            self.pid = os.getpid()
            self._clear()
        self.batches += 1
        self.samples += samples
        self.wall += wall
        self.cpu += cpu
        self.queued += queued
        self.collate += collate
        now = perf_counter()
        self.next_at = now + _EVERY_SECONDS
        if now - self.sent >= _SEND_SECONDS:
            self.sent = now
            self.recorder.emitter.emit(
                "fetched",
                batches=self.batches,
                samples=self.samples,
                getting=self.wall,
                cpu=self.cpu,
                queued=self.queued,
                collate=self.collate,
                evaluation=bool(self.recorder.window),
            )
            if not self.recorder.thread:  # a worker: nobody else flushes
                self.recorder.emitter.flush()
            self._clear()
