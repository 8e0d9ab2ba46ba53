"""What happened when, in the one thread that trains: phases, micro-steps, optimizer steps.

Probes call `enter`/`leave` around what they wrap; time is accounted *exclusively*, so a backward inside an
optimizer's closure, or a step inside a backward hook, is subtracted from what surrounds it. Time in no region
is a gap, and a gap is named by what ends it: between two calls of the model it is forward glue, between
forward and backward it is the loss, anything else is "other".

Everything here runs inside the user's step: plain lists and floats, no torch, one event per optimizer step.
"""

from __future__ import annotations

import re
import sys
import threading
from time import perf_counter

from .emitter import Emitter
from .events import (
    BACKWARD,
    CHECKPOINT,
    DATA,
    EVAL_WINDOW,
    FORWARD,
    LOGGING,
    LOSS,
    NO_WINDOW,
    NOGRAD_WINDOW,
    OPTIMIZER,
    OTHER,
    PHASES,
)

_ZEROS = [0.0] * len(PHASES)
# Saving and logging during an evaluation keep their own names.
_KEPT_IN_WINDOWS = (CHECKPOINT, LOGGING)
# Regions that can only belong to what comes after a manual update of the parameters.
_NEXT_MICRO_STEP = (DATA, FORWARD, BACKWARD)


# How people name the function that a forward without gradients serves, when they forget to call eval().
_EVALUATION = re.compile(r"eval|valid|test|estimate|metric|accura|generat", re.IGNORECASE)


def _called_from_evaluation() -> bool:
    """Does a function on the stack say that it evaluates? Looked at once per window."""
    frame = sys._getframe(2)
    for _ in range(30):
        if frame is None:
            break
        if _EVALUATION.search(frame.f_code.co_name):
            return True
        frame = frame.f_back
    return False


class Recorder:
    """State of one training process. Dormant until its first backward or optimizer step."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.on_active: list = []
        self.on_backward: list = []
        """Called with the tensors of each outermost backward, before it runs."""
        self.on_gap: list = []
        """Called when the first new work begins after a backward."""
        self.gpu = None
        """CUDA timing (probes.cuda.GpuClock) or None."""
        self._reset()

    def _reset(self) -> None:
        self.active = False
        self.sampler = None
        self.since = 0.0
        self.thread = 0
        self.closed = True
        """Read on every module call: True where a call is not the model's outermost (or we are dormant)."""
        self.stack: list[int] = []
        self.last = 0.0
        self.acc = list(_ZEROS)
        self.transitions = 0
        self.heavy_seconds = 0.0
        """The agent's own measured time: batch inspection and event writing."""
        self.gap_samples: list = []
        """Stacks sampled where the phase is not known yet."""
        self.undecided = False
        """The current region gets its phase when it is left."""
        self.samples: dict = {}
        self.window = NO_WINDOW
        self._window_start: list[float] = []
        self._window_calls = 0
        self._window_evaluates = False
        self._window_fetches: list = []
        self._nograd = list(_ZEROS)
        self._nograd_evaluates = False
        self._eval = 0.0
        self.calls_since_backward = 0
        """Calls of the model with gradients since the last backward; 0 again after each backward."""
        self.any_call = False
        self.device = None
        self.micro: list = []
        self.pending_micro: dict = {}
        self.loaded = None
        self.fetches = 0
        self._retained = False
        self._counted_inside = False
        self.backward_depth = 0
        self.step_depth = 0
        self.optimizer_steps = 0
        self.backwards = 0
        self.after_backward = False
        self._group: list = []
        self._boundary = None
        self._step_index = 0
        self._unsent: list = []

    # ---- life cycle -------------------------------------------------------------------------------------

    def activate(self) -> None:
        """First sign of training in this process: this thread is the one to watch from now on."""
        if self.active:
            return
        self.active = True
        self.thread = threading.get_ident()
        self.last = self.since = perf_counter()
        self.closed = False
        for callback in self.on_active:
            callback()

    def after_fork(self) -> None:
        """A forked child (a loader worker, a Hogwild trainer) starts dormant with empty books."""
        self._reset()

    def fail_open(self, probe: str, function):
        """`function`, which at its first exception is reported and from then on left out: training goes on."""
        broken = []

        def guarded(*args):
            if broken:
                return None
            try:
                return function(*args)
            except Exception as error:
                broken.append(error)
                self.emitter.emit("probe_failed", probe=probe, error=repr(error))
                return None

        return guarded

    def mine(self) -> bool:
        """Is the calling thread the training thread?"""
        return self.active and threading.get_ident() == self.thread

    # ---- phases -----------------------------------------------------------------------------------------

    def enter(self, phase: int) -> None:
        """Begin a region; the surrounding region or gap is paused."""
        now = perf_counter()
        stack = self.stack
        if stack:
            self.acc[stack[-1]] += now - self.last
        else:
            self._close_gap(now - self.last, phase)
        stack.append(phase)
        self.last = now
        self.transitions += 1
        if self.gpu is not None:
            self.gpu.mark(phase)

    def leave(self, phase: int | None = None) -> None:
        """End the current region, counting its last stretch as `phase` if that is only known now."""
        now = perf_counter()
        stack = self.stack
        if stack:
            begun = stack.pop()
            phase = begun if phase is None else phase
            self.acc[phase] += now - self.last
            if self.undecided:
                self.undecided = False
                self._name_samples(phase)
        self.last = now
        if self.gpu is not None:
            self.gpu.mark(stack[-1] if stack else OTHER)

    def _close_gap(self, seconds: float, ending: int) -> None:
        """Name the gap that `ending` ends, and the stacks sampled in it."""
        if self.calls_since_backward and ending == BACKWARD:
            phase = LOSS
        elif self.calls_since_backward and ending == FORWARD:
            phase = FORWARD
        else:
            phase = OTHER
        self.acc[phase] += seconds
        if self.gap_samples:
            self._name_samples(phase)
        if self.after_backward and ending in _NEXT_MICRO_STEP:
            self.after_backward = False
            for callback in self.on_gap:
                callback()
        if self._boundary is not None and ending != OPTIMIZER:
            self._emit_step()

    def _name_samples(self, phase: int) -> None:
        taken, self.gap_samples = self.gap_samples, []
        for key in taken:
            key = (phase, *key)
            self.samples[key] = self.samples.get(key, 0) + 1

    # ---- windows: forwards that train nothing -----------------------------------------------------------

    def open_window(self, kind: int) -> None:
        """Remember where the books stand; what is added from here on may be evaluation."""
        if self.window == NO_WINDOW:
            self._settle()
            self.window = kind
            self._window_start = list(self.acc)
            self._window_calls = 0
            self._window_evaluates = kind == NOGRAD_WINDOW and _called_from_evaluation()

    def close_window(self) -> None:
        """Move what was added since `open_window` out of the training phases, if a forward ran in it."""
        kind, self.window = self.window, NO_WINDOW
        # The last batch fetched in a window is the one the training goes on with.
        fetched, self._window_fetches = self._window_fetches[-1:], []
        for samples in fetched:
            self.batch_loaded(samples)
        if kind == NO_WINDOW or not self._window_calls:
            return
        self._settle()
        if kind == EVAL_WINDOW:
            self.calls_since_backward = 0
            self.pending_micro = {}
        for phase, before in enumerate(self._window_start):
            added = self.acc[phase] - before
            if phase in _KEPT_IN_WINDOWS or not added:
                continue
            self.acc[phase] = before
            if kind == EVAL_WINDOW:
                self._eval += added
            else:
                self._nograd[phase] += added
                self._nograd_evaluates |= self._window_evaluates

    def _settle(self) -> None:
        """Account for the time up to now without changing the region."""
        now = perf_counter()
        self.acc[self.stack[-1] if self.stack else OTHER] += now - self.last
        self.last = now

    # ---- what the probes saw ----------------------------------------------------------------------------

    def model_called(self, grad: bool, training: bool) -> None:
        """The model's outermost call begins."""
        if self.window == EVAL_WINDOW and not training:
            self._window_calls += 1
        elif not grad:
            if self.window == NO_WINDOW and not self.calls_since_backward:
                self.open_window(NOGRAD_WINDOW)
            self._window_calls += 1
            self._window_evaluates |= not training
        else:
            self.close_window()
        if grad:  # counted in an evaluation too: a backward may still show that it was training
            self.calls_since_backward += 1
            self.any_call = True

    def batch_loaded(self, samples: int | None) -> None:
        """A DataLoader handed a batch to the training thread."""
        if self.window != NO_WINDOW and self._window_calls:
            self._window_evaluates = True  # validation data: no batch of the training
            self._window_fetches.append(samples)
            return
        self.fetches += 1
        if samples is not None:
            self.loaded = (self.loaded or 0) + samples

    def backward_begins(self, retain: bool) -> None:
        """An outermost backward. It closes a micro-step if it follows a new forward."""
        if self.window == EVAL_WINDOW and self.calls_since_backward:
            self.window = NO_WINDOW  # a model trained in eval mode: that was no evaluation
        self.close_window()
        self.backwards += 1
        inside = self.step_depth > 0
        repeated = self._retained and not self.calls_since_backward
        new_forward = self.calls_since_backward > 0 or not self.any_call
        if new_forward and not repeated and not (inside and self._counted_inside):
            seen = self.pending_micro
            self.micro.append(
                (
                    seen.get("batch"),
                    seen.get("total"),
                    seen.get("calls", 0),
                    self.loaded,
                    self.fetches,
                    seen.get("tokens"),
                    seen.get("padded"),
                    seen.get("length"),
                    inside,
                )
            )
            self._counted_inside = inside
            self.loaded = None
            self.fetches = 0
        self.pending_micro = {}
        self.calls_since_backward = 0
        self._retained = retain

    def backward_ended(self) -> None:
        """The outermost backward returned."""
        self.after_backward = True
        if self._boundary is not None:  # steps taken inside the backward: the group ends with it
            self._set_boundary()

    def step_ended(self, optimizer: object, *, skipped: bool = False) -> None:
        """An optimizer's outermost step returned (or was skipped by a GradScaler)."""
        self.optimizer_steps += 1
        if self._boundary is not None and any(optimizer == name for name, _ in self._group):
            self._emit_step()  # the same optimizer again: another step, whatever lay between
        self._group.append((optimizer, skipped))
        self._counted_inside = False
        self._set_boundary()
        if self.optimizer_steps == 2 and self.any_call and optimizer != "manual":
            # An optimizer and a model: the probes for loops without them have nothing to find.
            self.on_backward.clear()
            self.on_gap.clear()

    def _set_boundary(self) -> None:
        self.close_window()
        self._settle()
        self._boundary = (self.last, list(self.acc))

    def _emit_step(self) -> None:
        """Put the open group by. Called when the next region begins, so that steps in a row are one group."""
        begun = perf_counter()
        end, acc = self._boundary
        self._boundary = None
        if self.gpu is not None:
            self.gpu.cut()
        self._unsent.append(
            (
                self._step_index,
                end,
                acc,
                self._nograd if any(self._nograd) else None,
                self._nograd_evaluates,
                self._eval,
                [name for name, _ in self._group],
                self.micro,
                any(skipped for _, skipped in self._group),
                self.device,
            )
        )
        self._step_index += 1
        self._group = []
        self.micro = []
        self._nograd = list(_ZEROS)
        self._nograd_evaluates = False
        self._eval = 0.0
        # What came after the boundary belongs to the next step.
        self.acc = [now - then for now, then in zip(self.acc, acc)]
        if self.window != NO_WINDOW:
            self._window_start = [now - then for now, then in zip(self._window_start, acc)]
        if self.emitter.due(begun):
            self._send_books()
        self.heavy_seconds += perf_counter() - begun

    def _send_books(self) -> None:
        """Write out what was put by: in a batch, for written one by one each step pays for cold caches."""
        unsent, self._unsent = self._unsent, []
        if unsent:
            self.emitter.emit("steps", rows=unsent)
        if self.samples:
            taken, self.samples = self.samples, {}
            self.emitter.emit("samples", counts=[[*key, n] for key, n in taken.items()])
        self.emitter.emit(
            "cost",
            transitions=self.transitions,
            heavy=self.heavy_seconds,
            sampler=self.sampler.cpu_seconds if self.sampler is not None else 0.0,
            elapsed=perf_counter() - self.since,
        )
        self.emitter.flush()

    def finish(self, why: str) -> None:
        """The process is leaving: send what is there."""
        if self.active:
            if self._boundary is not None:
                self._emit_step()
            self._send_books()
        self.emitter.emit("end", why=why)
        self.emitter.flush()
