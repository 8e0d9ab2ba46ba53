"""Writes events: one file per process, appended in whole lines, never blocking the training."""

from __future__ import annotations

import json
import os
import sys
import time

from .events import SCHEMA

FLUSH_SECONDS = 1.0


class Emitter:
    """Buffers events of one process and appends them to its own file.

    The file is opened for each flush and not kept: a program that closes "all" descriptors to daemonise
    would otherwise hand our number to a file of its own, and we would write into that.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.dropped = 0
        self._reset()

    def _reset(self) -> None:
        # perf_counter keeps names unique when the kernel reuses a pid within the session.
        self.path = os.path.join(self.folder, "%d-%x.jsonl" % (os.getpid(), time.perf_counter_ns()))
        self._seq = 0
        self._lines: list[str] = []
        self._torn = False
        self._greeted = False

    def hello(self) -> None:
        """Send the header now: a missing header means the agent never arrived."""
        self.flush(force=True)

    def _header(self) -> str:
        return json.dumps(
            {
                "schema": SCHEMA,
                "pid": os.getpid(),
                "ppid": os.getppid(),
                "argv": list(getattr(sys, "orig_argv", None) or getattr(sys, "argv", ())),
                "python": sys.executable,
                "prefix": sys.prefix,
                "wall": time.time(),
                "mono": time.perf_counter(),
            }
        )

    def emit(self, kind: str, **fields: object) -> None:
        """Queue one event; written with the next flush."""
        fields["kind"] = kind
        fields["seq"] = self._seq
        fields["wall"] = time.time()
        fields["mono"] = time.perf_counter()
        fields["dropped"] = self.dropped
        self._seq += 1
        self._lines.append(json.dumps(fields, separators=(",", ":"), default=repr))

    def flush(self, force: bool = False) -> None:
        """Append all queued lines. A full disk costs events, which are counted, and nothing else."""
        lines, self._lines = self._lines, []
        if not (lines or force):
            return
        if not self._greeted:
            self._greeted = True
            lines.insert(0, self._header())
        data = (("\n" if self._torn else "") + "\n".join(lines) + "\n").encode()
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                written = os.write(fd, data)
            finally:
                os.close(fd)
            self._torn = written < len(data)
            if self._torn:
                self.dropped += data[written:].count(b"\n")
        except OSError:
            self.dropped += len(lines)

    def after_fork(self) -> None:
        """In a forked child: a file of its own, and none of the parent's unsent lines."""
        self.dropped = 0
        self._reset()
