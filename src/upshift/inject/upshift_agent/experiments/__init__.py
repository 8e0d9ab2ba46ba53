"""Cheap experiments inside the run, when it has been measured and is about to be ended.

What a change would save is often quicker tried than argued: the same inputs in one call instead of sixteen, the same
step on batches already in memory. They run in the user's process with its own model and data, after the
last measured step; the run is thrown away afterwards. upshift starts them by putting a file where the session says.

Each experiment is one file and one function. One that fails is reported and the next goes on.
"""

from __future__ import annotations

import json
import os
import time

from .. import recorder as recording
from . import aside, calls, ceiling, loading, optimizers, replay

_HOPELESS = 1.6
"""A variant that takes so many times as long as the first is not run again."""
_NOBODY = -1
"""Stands for "no thread" while an experiment runs: the probes stay out of it."""


class Experiments:
    """Waits for the go, then runs one experiment after the other at the points where each can run."""

    def __init__(self, torch, recorder: recording.Recorder, go: str) -> None:
        self.torch = torch
        self.recorder = recorder
        self.go = go
        self.begun = False
        self.plan: dict = {}
        self.deadline = 0.0
        self._todo: list = []
        recorder.on_send.append(self._look)

    def _look(self) -> None:
        """Called about once a second: may the experiments begin?"""
        if self.begun or not os.path.exists(self.go):
            return
        with open(self.go, encoding="utf-8") as stream:
            self.plan = json.load(stream)
        self.begun = True
        self.deadline = time.perf_counter() + self.plan["seconds"]
        self.recorder.emitter.emit("experiments_begin", step=self.recorder.books.cuts)
        steps = {
            "replay": replay.run,
            "aside": aside.run,
            "calls": calls.run,
            "optimizer": optimizers.run,
            "ceiling": ceiling.run,
            "loading": loading.run,
        }
        self._todo = [(name, steps[name](self)) for name in self.plan["kinds"] if name in steps]
        self.recorder.at_step = self.step_ended

    def step_ended(self, optimizer) -> None:
        """An optimizer step ended: the experiment at hand goes on, or the next begins.

        An experiment is a generator: it does something at the end of a step, yields to let the loop make
        another step, and returns its result.
        """
        recorder = self.recorder
        thread, recorder.thread = recorder.thread, _NOBODY
        self.optimizer = optimizer
        try:
            while self._todo:
                name, experiment = self._todo[0]
                try:
                    if time.perf_counter() > self.deadline and name != "ceiling":
                        raise TimeoutError("no time left for it")
                    next(experiment)
                    return
                except StopIteration as finished:
                    recorder.emitter.emit("experiment", name=name, result=finished.value, error=None)
                except Exception as error:
                    recorder.emitter.emit("experiment", name=name, result=None, error=repr(error)[:500])
                self._todo.pop(0)
                recorder.feed = None
                recorder.capture = None
                recorder.skipped = ()
                recorder.emitter.flush()
            recorder.at_step = None
            recorder.emitter.emit("experiments_end")
            recorder.emitter.flush()
        finally:
            recorder.thread = thread


def quickest(variants: dict, seconds: float, most: int = 60) -> dict:
    """Seconds of each variant: run in turn, again and again, the median of each. Failures are left out."""
    times: dict = {name: [] for name in variants}
    errors: dict = {}
    working: dict = {}
    first = None
    for name, function in variants.items():
        try:
            function()  # the first call allocates, autotunes and fills caches
            begun = time.perf_counter()
            function()
            took = time.perf_counter() - begun
        except Exception as error:
            errors[name] = repr(error)[:300]
            continue
        first = first or took
        if took > _HOPELESS * first:
            times[name].append(took)  # one look is enough
        else:
            working[name] = function
    begun = time.perf_counter()
    rounds = 0
    while working and rounds < most and (rounds < 3 or time.perf_counter() - begun < seconds):
        for name, function in working.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
        rounds += 1
    # The lower half: neighbours on the machine only ever make it slower.
    medians = {name: _low(sorted(found)) for name, found in times.items() if found}
    return {"seconds": medians, "rounds": rounds, "errors": errors}


def _low(ordered: list) -> float:
    half = ordered[: max(1, (len(ordered) + 1) // 2)]
    return sum(half) / len(half)
