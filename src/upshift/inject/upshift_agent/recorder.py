"""What the probes tell, in the one thread that trains: marks on a tape, and the few flags they need at once.

Everything here runs inside the user's step, where Python is cold and each line costs: so a probe only puts a kind
and a time on the tape. Twice a second the tape is played (books.py) and what it says is sent.
"""

from __future__ import annotations

import re
import sys
from threading import get_ident
from time import perf_counter

from .books import (
    BACKWARD_BEGINS,
    BACKWARD_ENDS,
    CLOSE_WINDOW,
    GRAD_FORWARD,
    LEAVE,
    LEAVE_AS,
    OPEN_WINDOW,
    PHASE_OF,
    STEP,
    Books,
)
from .emitter import FLUSH_SECONDS, Emitter
from .events import DATA, EVAL_WINDOW, FORWARD, NO_WINDOW, NOGRAD_WINDOW

# Regions that can only belong to what comes after a manual update of the parameters.
_NEXT_MICRO_STEP = (DATA, FORWARD, GRAD_FORWARD, BACKWARD_BEGINS)


_NEVER = float("inf")
_EAGER_SECONDS = 8.0
_LATER = 2.5
_MODULES_BUDGET = 0.0002
"""Share of run time for writing out the table of modules."""

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

    # Slots lie side by side in memory: read in every step, mostly from cold caches.
    __slots__ = (
        "_counted_inside",
        "_look_in_gap",
        "_modules_at",
        "_modules_sent",
        "_retained",
        "_window_calls",
        "_window_evaluates",
        "_window_fetches",
        "any_call",
        "at_step",
        "backward_depth",
        "backwards",
        "books",
        "calls_since_backward",
        "capture",
        "closed",
        "detail",
        "detail_at",
        "detail_due",
        "device",
        "eager",
        "emitter",
        "feed",
        "fetches",
        "gpu",
        "loaded",
        "mark",
        "marks",
        "on_active",
        "on_backward",
        "on_gap",
        "on_marks",
        "on_gradients",
        "on_model",
        "on_send",
        "optimizer_steps",
        "pending_micro",
        "sampler",
        "send_at",
        "sending_seconds",
        "since",
        "skipped",
        "step_depth",
        "tape",
        "thread",
        "turns",
        "window",
    )

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.on_active: list = []
        self.on_backward: list = []
        """Called with the tensors of each outermost backward, before it runs."""
        self.on_gap: list = []
        """Called when the first new work begins after a backward."""
        self.on_marks: list = []
        """Called with the marks that are about to be played."""
        self.on_send: list = []
        """Called before events are sent."""
        self.on_model: list = []
        """Called with the model before each outermost call: levers that must see it first."""
        self.on_gradients: list = []
        """Called before the gradients of a step are looked at."""
        self.eager = False
        """Begin at the first call of a model with gradients, not at the first backward."""
        self.turns = None
        """In a race: turns.Turns."""
        self.feed = None
        """An experiment with the DataLoader's batches (experiments.replay), or None."""
        self.capture = None
        """An experiment that keeps the model's inputs (experiments.calls), or None."""
        self.skipped: tuple = ()
        """Phases whose calls return at once: an experiment (experiments.aside)."""
        self.at_step = None
        """Called at the end of each optimizer step while experiments run."""
        self.gpu = None
        """CUDA timing (probes.cuda.GpuClock) or None."""
        self.detail = None
        """The close look at modules (probes.detail.Detail)."""
        self.tape: list = []
        self.mark = self.tape.append
        self._reset()

    def _reset(self) -> None:
        self.tape.clear()
        self.books = Books(0.0)
        self.sampler = None
        self.since = 0.0
        self.thread = 0
        """The thread that trains; 0 while dormant, which no thread is."""
        self.closed = not self.eager
        """Read on every module call: True where a call is not the model's outermost (or we are dormant)."""
        self.marks = 0
        self.sending_seconds = 0.0
        self.send_at = 0.0
        self.window = NO_WINDOW
        self._window_calls = 0
        self._window_evaluates = False
        self._window_fetches: list = []
        self.calls_since_backward = 0
        """Calls of the model with gradients since the last backward; 0 again after each backward."""
        self.any_call = False
        self.device = None
        self.pending_micro: dict = {}
        self.loaded = None
        self.fetches = 0
        self._retained = False
        self._counted_inside = False
        self.backward_depth = 0
        self.step_depth = 0
        self.optimizer_steps = 0
        self.backwards = 0
        self._look_in_gap = False
        self._modules_sent = 0
        self._modules_at = 0.0
        self.detail_due = False
        """The present micro-step is to be looked at closely."""
        self.detail_at = _NEVER if self.detail is None else 0.0
        """When the next one is."""
        if self.detail is not None:
            self.detail.reset()

    # ---- life cycle -------------------------------------------------------------------------------------

    def activate(self) -> None:
        """First sign of training in this process: this thread is the one to watch from now on."""
        if self.thread:
            return
        self.since = perf_counter()
        self.send_at = self.since + FLUSH_SECONDS
        self.books = Books(self.since)
        self.thread = get_ident()
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

    # ---- phases -----------------------------------------------------------------------------------------

    def enter(self, kind: int, payload: tuple = ()) -> None:
        """Begin a region; the surrounding region or gap is paused."""
        if self._look_in_gap and kind in _NEXT_MICRO_STEP:
            self._look_in_gap = False
            for callback in self.on_gap:
                callback()
        now = perf_counter()
        self.mark((kind, now, *payload) if payload else (kind, now))
        if self.gpu is not None:
            self.gpu.enter(PHASE_OF.get(kind, kind), now)
        if now >= self.send_at:
            self.send()

    def leave(self) -> None:
        """End the current region."""
        self.mark((LEAVE, perf_counter()))
        if self.gpu is not None:
            self.gpu.leave(perf_counter())

    def leave_as(self, phase: int) -> None:
        """End the current region, whose phase is only known now."""
        self.mark((LEAVE_AS, perf_counter(), phase))
        if self.gpu is not None:
            self.gpu.leave(perf_counter())

    # ---- windows: forwards that train nothing -----------------------------------------------------------

    def open_window(self, kind: int) -> None:
        """Remember where the books stand; what is added from here on may be evaluation."""
        if self.window == NO_WINDOW:
            self.window = kind
            self._window_calls = 0
            self._window_evaluates = kind == NOGRAD_WINDOW and _called_from_evaluation()
            self.mark((OPEN_WINDOW, perf_counter()))

    def close_window(self) -> None:
        """What was done since `open_window` was no training, if a forward ran in it."""
        kind, self.window = self.window, NO_WINDOW
        if kind == NO_WINDOW:
            return
        # The last batch fetched in a window is the one the training goes on with.
        fetched, self._window_fetches = self._window_fetches[-1:], []
        for samples in fetched:
            self.batch_loaded(samples)
        if not self._window_calls:
            kind = NO_WINDOW
        if kind == EVAL_WINDOW:
            self.calls_since_backward = 0
            self.pending_micro = {}
        self.mark((CLOSE_WINDOW, perf_counter(), kind, self._window_evaluates))

    # ---- what the probes saw ----------------------------------------------------------------------------

    def model_begins(self, grad: bool, training: bool) -> None:
        """The model's outermost call begins."""
        self.enter(GRAD_FORWARD if grad else FORWARD)
        if self.window or not grad:
            self._model_called_in_window(grad, training)
        if grad:  # counted in an evaluation too: a backward may still show that it was training
            self.calls_since_backward += 1
            self.any_call = True

    def _model_called_in_window(self, grad: bool, training: bool) -> None:
        if self.window == EVAL_WINDOW and not training:
            self._window_calls += 1
        elif not grad:
            if self.window == NO_WINDOW and not self.calls_since_backward:
                self.open_window(NOGRAD_WINDOW)
            self._window_calls += 1
            self._window_evaluates |= not training
        else:
            self.close_window()

    def batch_loaded(self, samples: int | None) -> None:
        """A DataLoader handed a batch to the training thread."""
        if self.window and self._window_calls:
            self._window_evaluates = True  # validation data: no batch of the training
            self._window_fetches.append(samples)
            return
        self.fetches += 1
        if samples is not None:
            self.loaded = (self.loaded or 0) + samples

    def backward_begins(self, retain: bool) -> None:
        """An outermost backward. It closes a micro-step if it follows a new forward."""
        if self.window:
            if self.window == EVAL_WINDOW and self.calls_since_backward:
                self._window_calls = 0  # a model trained in eval mode: that was no evaluation
            self.close_window()
        self.backwards += 1
        inside = self.step_depth > 0
        calls = self.calls_since_backward
        micro: tuple = ()
        # Not a second backward through a graph that was kept, nor a closure evaluated again.
        if (calls or not (self.any_call or self._retained)) and not (inside and self._counted_inside):
            micro = (self.pending_micro, self.loaded, self.fetches, inside)
            self._counted_inside = inside
            self.loaded = None
            self.fetches = 0
        self.pending_micro = {}
        self.calls_since_backward = 0
        self._retained = retain
        self.enter(BACKWARD_BEGINS, micro)

    def backward_ended(self) -> None:
        """The outermost backward returned."""
        now = perf_counter()
        self.mark((BACKWARD_ENDS, now))
        if now >= self.detail_at:
            self.detail.backward_ended(now)
        if self.gpu is not None:
            self.gpu.leave(perf_counter())
        if self.on_gap:
            self._look_in_gap = True

    def step_ended(self, optimizer: object, skipped: bool = False, leaves: bool = False) -> None:
        """An optimizer's outermost step returned (or was skipped by a GradScaler); `leaves` its region too."""
        if self.window:
            self.close_window()
        self.optimizer_steps += 1
        self._counted_inside = False
        self.mark((STEP, perf_counter(), optimizer, skipped, leaves))
        if leaves and self.gpu is not None:
            self.gpu.leave(perf_counter())
        if self.optimizer_steps == 2 and self.any_call and optimizer != "manual":
            # An optimizer and a model: the probes for loops without them have nothing to find.
            self.on_backward.clear()
            self.on_gap.clear()
        if self.turns is not None:
            self.turns.stepped()

    # ---- out of the process -----------------------------------------------------------------------------

    def send(self) -> None:
        """Play the tape and write out what it says: in a batch, for one by one each step pays for cold caches."""
        begun = perf_counter()
        marks = self.tape[:]
        del self.tape[: len(marks)]  # the sampler may have added one meanwhile
        self.marks += len(marks)
        for callback in self.on_marks:
            callback(marks)
        books = self.books
        books.play(marks, self.device)
        if self.gpu is not None:
            self.gpu.settle([(row[0], row[1]) for row in books.rows])
        self._emit_books()
        for callback in self.on_send:
            callback()
        self.emitter.flush()
        now = perf_counter()
        self.sending_seconds += now - begun
        # Cold caches make sending dear: often while upshift is eager to know, seldom after that.
        self.send_at = now + (FLUSH_SECONDS if now - self.since < _EAGER_SECONDS else _LATER * FLUSH_SECONDS)
        books.charge(now - begun)

    def _emit_books(self) -> None:
        self._emit_modules()
        books = self.books
        rows, books.rows = books.rows, []
        if rows:
            self.emitter.emit("steps", rows=rows)
        if books.samples:
            taken, books.samples = books.samples, {}
            self.emitter.emit("samples", counts=[[*key, n] for key, n in taken.items()])
        self.emitter.emit(
            "cost",
            marks=self.marks,
            sending=self.sending_seconds,
            sampler=self.sampler.cpu_seconds if self.sampler is not None else 0.0,
            elapsed=perf_counter() - self.since,
        )

    def _emit_modules(self) -> None:
        """The table of modules so far; a long one seldom."""
        if self.detail is None:
            return
        now = perf_counter()
        self.detail.settle()
        times = self.detail.times
        if times.micro_steps == self._modules_sent or now < self._modules_at:
            return
        self._modules_sent = times.micro_steps
        rows = [row for row in times.table if row[4]]
        self.emitter.emit(
            "modules",
            rows=rows,
            micro_steps=times.micro_steps,
            forward=times.forward,
            backwards=times.backwards,
            distributed=times.distributed,
            synchronised=times.synchronised,
            backward=times.backward,
            recomputed=times.recomputed,
        )
        took = perf_counter() - now
        self._modules_at = now + max(2.0, took / _MODULES_BUDGET)

    def finish(self, why: str) -> None:
        """The process is leaving: send what is there."""
        if self.thread:
            self.send()
            self.books.finish()
            self._emit_books()
        self.emitter.emit("end", why=why)
        self.emitter.flush()
