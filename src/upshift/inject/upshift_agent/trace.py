"""A few steps kept mark by mark, for `upshift profile --trace`."""

from __future__ import annotations

from .recorder import Recorder

_FROM_STEP = 3
_STEPS = 5
_MOST_MARKS = 200_000


class Trace:
    """Keeps the tape of some steps, and of every module call in them, and sends both."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.marks: list = []
        self.modules: list = []
        recorder.on_marks.append(self._take)

    def _take(self, marks: list) -> None:
        """Called with the marks of about a second, before they are played."""
        recorder = self.recorder
        detail = recorder.detail
        if recorder.optimizer_steps < _FROM_STEP:
            return
        if detail is not None and detail.keep is None:
            detail.keep = self.modules  # from the next micro-step on
            recorder.detail_at = 0.0
            return
        self.marks.extend(mark[:2] for mark in marks if mark[1])
        if detail is not None and len(self.modules) < _STEPS and len(self.marks) < _MOST_MARKS:
            recorder.detail_at = 0.0
            return
        recorder.on_marks.clear()
        names = []
        if detail is not None:
            detail.keep = None
            names = [row[0] for row in detail.times.table]
        recorder.emitter.emit("trace", marks=self.marks, modules=self.modules, names=names)
