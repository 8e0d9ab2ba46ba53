"""A slow look at the training thread's stack, so that time outside torch gets a file and a line.

One daemon thread, started when training is seen. It takes the interpreter lock for a few microseconds a tick;
the benchmark in benchmarks/ says what that costs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from .books import SAMPLE
from .recorder import Recorder

INTERVAL_SECONDS = 0.5
# Short runs want samples soon; long ones have time, and pay less.
_EAGER_SECONDS = 0.04
_EAGER_TICKS = 75
_SHARP_SECONDS = 2e-4
# Waiting in one of these between steps is waiting for data made elsewhere (a thread, a pool, a process).
_WAITING_IN = (
    os.sep + "queue.py",
    os.path.join("multiprocessing", "queues.py"),
    os.path.join("multiprocessing", "connection.py"),
    os.path.join("multiprocessing", "pool.py"),
    os.path.join("concurrent", "futures", "_base.py"),
)


_NAMELESS = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<lambda>")
_NOT_THE_USERS = (
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    os.path.dirname(os.__file__) + os.sep,
    "<",
)
_installed: dict = {}


def installed(filename: str) -> bool:
    """Is this source file Python's, an installed package's or ours: not the user's own?"""
    known = _installed.get(filename)
    if known is None:
        known = _installed[filename] = (
            filename.startswith(_NOT_THE_USERS) or "site-packages" in filename or "dist-packages" in filename
        )
    return known


class Sampler(threading.Thread):
    """Puts on the tape where the training thread is."""

    def __init__(self, recorder: Recorder, keeper_pid: int, looks: bool = True) -> None:
        super().__init__(name="upshift-sampler", daemon=True)
        self.recorder = recorder
        self.looks = looks
        """Else it only sees to it that nothing lives on without upshift."""
        self.keeper_pid = keeper_pid
        self.cpu_seconds = 0.0
        self.ticks = 0

    def run(self) -> None:
        """Tick until the process ends."""
        recorder = self.recorder
        pid = os.getpid()
        usual = sys.getswitchinterval()
        sharp = False
        while recorder.thread and os.getpid() == pid:
            # The interpreter lock is ours 5 ms after we ask, or at the next call that drops it: samples would
            # pile up on torch calls. With no third thread to disturb, ask for it sooner.
            if sharp != (self.looks and threading.active_count() <= 2):
                sharp = not sharp
                sys.setswitchinterval(_SHARP_SECONDS if sharp else usual)
            time.sleep(_EAGER_SECONDS if self.looks and self.ticks < _EAGER_TICKS else INTERVAL_SECONDS)
            self.ticks += 1
            frame = sys._current_frames().get(recorder.thread) if self.looks else None
            if frame is not None:
                self._count(frame)
            del frame
            if self.ticks % 8 == 0:
                self._stop_if_abandoned()
                self.cpu_seconds = time.thread_time()

    def _count(self, frame) -> None:
        recorder = self.recorder
        waits = False
        place = frame
        depth = 0
        while place is not None and depth < 80:
            name = place.f_code.co_filename
            if depth < 4 and name.endswith(_WAITING_IN):
                waits = True
            if not installed(name):
                break
            place = place.f_back
            depth += 1
        if place is None:
            place = frame
        named = place
        while named.f_code.co_name in _NAMELESS and named.f_back is not None:
            named = named.f_back
        key = (place.f_code.co_filename, place.f_lineno, named.f_code.co_name, waits, recorder.window)
        recorder.mark((SAMPLE, 0.0, key))

    def _stop_if_abandoned(self) -> None:
        """upshift and its keeper are gone (killed): a probe must not live on without them."""
        if not self.keeper_pid:
            return
        try:
            os.kill(self.keeper_pid, 0)
        except ProcessLookupError:
            os.kill(os.getpid(), signal.SIGKILL)
        except PermissionError:
            pass
