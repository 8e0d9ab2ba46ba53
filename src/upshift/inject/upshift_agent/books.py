"""The tape, played back: marks with their times become phases, micro-steps and optimizer steps.

Time is accounted *exclusively*, so a backward inside an optimizer's closure, or a step inside a backward hook,
is subtracted from what surrounds it. Time in no region is a gap, and a gap is named by what ends it: between two
calls of the model it is forward glue, between forward and backward it is the loss, anything else is "other".
"""

from __future__ import annotations

from .events import (
    BACKWARD,
    CHECKPOINT,
    EVAL_WINDOW,
    FORWARD,
    LOGGING,
    LOSS,
    OPTIMIZER,
    OTHER,
    PHASES,
)

# Marks on the tape are tuples: kind, time, and what the kind needs. A phase as kind: that region begins.
(
    LEAVE,  # the current region ends
    LEAVE_AS,  # phase: it ends, and turns out to have been this
    GRAD_FORWARD,  # the model is called with gradients
    BACKWARD_BEGINS,  # what reached the model in the micro-step it closes, loaded, fetches, inside; or nothing
    BACKWARD_ENDS,
    STEP,  # optimizer, skipped, was it a region: the update is done
    OPEN_WINDOW,  # forwards from here on may be an evaluation
    CLOSE_WINDOW,  # kind of window (NO_WINDOW: it was none), does it look like an evaluation
    SAMPLE,  # where the thread was seen
) = range(len(PHASES), len(PHASES) + 9)

PHASE_OF = {GRAD_FORWARD: FORWARD, BACKWARD_BEGINS: BACKWARD}

_ZEROS = [0.0] * len(PHASES)
# Saving and logging during an evaluation keep their own names.
_KEPT_IN_WINDOWS = (CHECKPOINT, LOGGING)


def _micro_row(seen: dict, loaded: int | None, fetches: int, inside: bool) -> tuple:
    """A row of events.MICRO_FIELDS."""
    get = seen.get
    return (
        get("batch"),
        get("total"),
        get("calls", 0),
        loaded,
        fetches,
        get("tokens"),
        get("padded"),
        get("length"),
        get("longest"),
        inside,
    )


class Books:
    """Played marks. `rows` and `samples` are taken out by whoever sends them."""

    def __init__(self, begun: float) -> None:
        self.rows: list = []
        """Finished groups of optimizer steps, see events.STEP_FIELDS."""
        self.samples: dict = {}
        self.cuts = 0
        self._stack: list[int] = []
        self._last = begun
        self._acc = list(_ZEROS)
        self._stretch: list = []
        """Stacks sampled since the last change of region: they get the phase of this stretch."""
        self._calls = 0
        """Calls of the model with gradients since the last backward."""
        self._window_start: list | None = None
        self._nograd = list(_ZEROS)
        self._nograd_evaluates = False
        self._eval = 0.0
        self._micro: list = []
        self._group: list = []
        self._boundary: tuple | None = None

    def play(self, marks: list, device: str | None) -> None:
        """Account for marks, in the order they were made."""
        for mark in marks:
            kind, now = mark[0], mark[1]
            if kind < LEAVE:
                self._enter(kind, now)
            elif kind == LEAVE:
                self._leave(now, None)
            elif kind == GRAD_FORWARD:
                self._enter(FORWARD, now)
                self._calls += 1
            elif kind == SAMPLE:
                self._stretch.append(mark[2])
            elif kind == BACKWARD_BEGINS:
                self._enter(BACKWARD, now)
                if len(mark) > 2:
                    self._micro.append(_micro_row(*mark[2:]))
                self._calls = 0
            elif kind == BACKWARD_ENDS:
                self._leave(now, None)
                if self._boundary is not None:  # steps taken inside the backward: the group ends with it
                    self._boundary = (now, list(self._acc), device)
            elif kind == STEP:
                if mark[4]:
                    self._leave(now, None)
                self._step(now, mark[2], mark[3], device)
            elif kind == LEAVE_AS:
                self._leave(now, mark[2])
            elif kind == OPEN_WINDOW:
                self._settle(now, OTHER)
                self._window_start = list(self._acc)
            elif kind == CLOSE_WINDOW:
                self._close_window(now, mark[2], mark[3])

    def charge(self, seconds: float) -> None:
        """The agent itself worked for so long: nobody's phase but "other"."""
        self._acc[OTHER] += seconds
        self._last += seconds

    def finish(self) -> None:
        """No more marks will come: close what is open."""
        if self._boundary is not None:
            self._close_group()

    def _settle(self, now: float, gap: int, phase: int | None = None) -> None:
        """Count the stretch up to `now` for the current region (or as `phase`), or as `gap` in no region."""
        if phase is None:
            phase = self._stack[-1] if self._stack else gap
        self._acc[phase] += now - self._last
        self._last = now
        if self._stretch:
            taken, self._stretch = self._stretch, []
            for key in taken:
                key = (phase, *key)
                self.samples[key] = self.samples.get(key, 0) + 1

    def _enter(self, phase: int, now: float) -> None:
        gap = OTHER
        if self._calls:
            gap = LOSS if phase == BACKWARD else FORWARD if phase == FORWARD else OTHER
        self._settle(now, gap)
        if self._boundary is not None and phase != OPTIMIZER and not self._stack:
            self._close_group()
        self._stack.append(phase)

    def _leave(self, now: float, phase: int | None) -> None:
        self._settle(now, OTHER, phase)
        if self._stack:
            self._stack.pop()

    def _step(self, now: float, optimizer: object, skipped: bool, device: str | None) -> None:
        """An optimizer's outermost step returned (or was skipped by a GradScaler)."""
        self._settle(now, OTHER)
        if self._boundary is not None and any(optimizer == name for name, _ in self._group):
            self._close_group()  # the same optimizer again: another step, whatever lay between
        self._group.append((optimizer, skipped))
        self._boundary = (now, list(self._acc), device)

    def _close_window(self, now: float, kind: int, evaluates: bool) -> None:
        """Move what was added since the window opened out of the training phases."""
        # No evaluation after all: a model switched between its forward and its backward.
        self._settle(now, LOSS if self._calls and not kind else OTHER)
        start, self._window_start = self._window_start, None
        if start is None or not kind:
            return
        if kind == EVAL_WINDOW:
            self._calls = 0
        for phase, before in enumerate(start):
            added = self._acc[phase] - before
            if phase in _KEPT_IN_WINDOWS or not added:
                continue
            self._acc[phase] = before
            if kind == EVAL_WINDOW:
                self._eval += added
            else:
                self._nograd[phase] += added
                self._nograd_evaluates |= evaluates

    def _close_group(self) -> None:
        """The open group of optimizer steps is complete: steps in a row are one group."""
        end, acc, device = self._boundary
        self._boundary = None
        self.rows.append(
            (
                self.cuts,
                end,
                acc,
                self._nograd if any(self._nograd) else None,
                self._nograd_evaluates,
                self._eval,
                [name for name, _ in self._group],
                self._micro,
                any(skipped for _, skipped in self._group),
                device,
            )
        )
        self.cuts += 1
        self._group = []
        self._micro = []
        self._nograd = list(_ZEROS)
        self._nograd_evaluates = False
        self._eval = 0.0
        # What came after the boundary belongs to the next step.
        self._acc = [now - then for now, then in zip(self._acc, acc)]
        if self._window_start is not None:
            self._window_start = [now - then for now, then in zip(self._window_start, acc)]
