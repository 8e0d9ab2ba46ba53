"""Module by module: now and then one micro-step is looked at closely, so that on average it costs next to nothing.

Hooks on every call would cost more than a percent. Instead the patched Module.__call__ takes its long way for a whole
micro-step, and the next such micro-step comes when enough time has passed to pay for this one.
"""

from __future__ import annotations

import os
import weakref
from time import perf_counter

from ..module_times import BACKWARD_BEGINS, END, ENTER, LEAVE, LEFT, REACHED, ModuleTimes

_BUDGET = 0.0005
"""Share of run time, on average, for the forward and again for the backward."""
_CALL_SECONDS = 2.5e-6
"""What a look at one call costs in its forward, with cold caches."""
_HOOK_SECONDS = 13e-6
"""What a look at one tensor costs in the backward: a hook put in its place and called."""
_MOST_MARKS = 100_000
_FIRST_AFTER_BACKWARDS = 3


class Detail:
    """The close look: whether it is on, and what it has seen."""

    def __init__(self, torch, recorder) -> None:
        self.torch = torch
        self.recorder = recorder
        self.times = ModuleTimes()
        self.on = False
        """Inside an outermost call, or a backward, of the micro-step being looked at."""
        recorder.detail_at = 0.0
        self._tape: list = []
        self._index: dict = {}
        self._roots: dict = {}
        self._frozen: dict = {}
        self._hooks_work = True
        self._hooks_now = False
        self._hooks_at = 0.0
        self._own_call: float | None = None
        self.keep: list | None = None
        """Where tapes are kept for a trace."""
        self._waiting: list = []
        """On a GPU: tapes whose events have not all happened yet."""

    def _now(self):
        """A float on the host's clock; on a GPU an event in its stream, read later."""
        if self.recorder.gpu is None:
            return perf_counter()
        return self.recorder.gpu.event()

    def reset(self) -> None:
        """In a forked child: nothing seen."""
        self.__init__(self.torch, self.recorder)

    # ---- when -------------------------------------------------------------------------------------------

    def backward_begins(self) -> None:
        """An outermost backward begins in the micro-step being looked at."""
        self.on = True
        self._tape.append((BACKWARD_BEGINS, self._now(), 0))

    def backward_ended(self, now: float) -> None:
        """A micro-step is over: play it, and say when the next one is due. Called from `recorder.detail_at` on."""
        recorder = self.recorder
        if recorder.detail_due:
            self.on = recorder.detail_due = False
            marks, self._tape = self._tape, []
            if len(marks) > 1:
                marks.append((END, self._now(), 0))
                if self.keep is not None:
                    self.keep.append(marks)
                self._waiting.append((marks, self._hooks_now))
                self.settle()
            hooks = sum(kind in (REACHED, LEFT) for kind, _, _ in marks)
            wait = 0.0 if self.keep is not None else 1.0
            recorder.detail_at = now + wait * (len(marks) - hooks) / 2 * _CALL_SECONDS / _BUDGET
            if self._hooks_now:
                self._hooks_at = now + hooks * _HOOK_SECONDS / _BUDGET
            self._hooks_now = False
        elif recorder.backwards >= _FIRST_AFTER_BACKWARDS:
            recorder.detail_due = True
            self._hooks_now = self._hooks_work and now >= self._hooks_at

    def settle(self) -> None:
        """Play the micro-steps that are over; on a GPU, those it has finished."""
        gpu = self.recorder.gpu
        while self._waiting:
            marks, hooked = self._waiting[0]
            if gpu is not None:
                if not marks[-1][1].query():
                    return
                marks = gpu.seconds(marks)
            self._waiting.pop(0)
            self.times.play(marks, self._own_call or 0.0, hooked)

    # ---- what -------------------------------------------------------------------------------------------

    def outermost(self, module, args, kwargs, original):
        """The model's outermost call, looked at closely."""
        if self._own_call is None:
            self._own_call = self._cost_of_looking()
        if id(module) not in self._roots:
            self._register(module)
        if type(module).__name__ == "DistributedDataParallel":
            self.times.distributed += 1
            self.times.synchronised += bool(getattr(module, "require_backward_grad_sync", False))
        self.on = True
        try:
            return self.call(module, args, kwargs, original)
        finally:
            self.on = False

    def call(self, module, args, kwargs, original):
        """One call of a module, inside an outermost call or inside a backward."""
        tape = self._tape
        index = self._index.get(id(module))
        if index is None:
            index = self._adopt(module, None)
        if len(tape) > _MOST_MARKS:
            return original(module, *args, **kwargs)
        tape.append((ENTER, self._now(), index))
        try:
            result = original(module, *args, **kwargs)
        finally:
            tape.append((LEAVE, self._now(), index))
        if self._hooks_now:
            try:
                self._hook(args, kwargs, LEFT, index)
                self._hook((result,), {}, REACHED, index)
                if index in self._frozen:
                    self._look_at_frozen(index, module, result)
            except Exception as error:
                self._hooks_now = self._hooks_work = False
                self.recorder.emitter.emit("probe_failed", probe="modules", error=repr(error))
        return result

    def _hook(self, args, kwargs, kind: int, index: int) -> None:
        """Mark the moment when the backward reaches these tensors."""
        tape = self._tape
        todo = list(args)
        todo.extend(kwargs.values())
        tensor_class = self.torch.Tensor
        for _ in range(16):
            if not todo:
                return
            value = todo.pop()
            if isinstance(value, tensor_class):
                node = value.grad_fn
                if node is not None:

                    def reached(_):
                        if self.on:
                            tape.append((kind, self._now(), index))

                    node.register_prehook(reached)
            elif isinstance(value, (list, tuple)):
                todo.extend(value[:8])
            elif isinstance(value, dict):
                todo.extend(list(value.values())[:8])

    # ---- who --------------------------------------------------------------------------------------------

    def _register(self, root) -> None:
        """Names for all modules of a model called for the first time."""
        self._roots[id(root)] = weakref.ref(root)
        self._adopt(root, None)
        name = type(root).__name__
        by_path = {"": self._index[id(root)]}
        for path, module in root.named_modules():
            if path and id(module) not in self._index:
                parent = by_path.get(path.rpartition(".")[0])
                by_path[path] = self._adopt(module, parent, f"{name}.{path}")
            elif path:
                by_path[path] = self._index[id(module)]

    def _adopt(self, module, parent, name: str | None = None) -> int:
        parameters = list(module.parameters())
        index = self.times.add(
            name or type(module).__name__,
            type(module).__name__,
            _where(module),
            parent,
            sum(p.numel() for p in parameters),
        )
        self._index[id(module)] = index
        if parameters and not any(p.requires_grad for p in parameters):
            self._frozen[index] = None
        return index

    def _look_at_frozen(self, index: int, module, result) -> None:
        """Could this module's output be computed once? Not if it is trained through, random or updated."""
        versions = sum(p._version for p in module.parameters())
        known = self._frozen[index]
        varies = any(
            m.training and ("Dropout" in type(m).__name__ or "BatchNorm" in type(m).__name__)
            for m in module.modules()
        )
        grows = _requires_grad(self.torch, result)
        verdict = "constant"
        if known is not None and known != versions:
            verdict = "updated"
        elif grows:
            verdict = "trained through"
        elif varies:
            verdict = "random"
        self._frozen[index] = versions
        self.times.table[index][8] = verdict

    def _cost_of_looking(self) -> float:
        """Seconds that one look adds to the caller's own time, here and now."""
        tape: list = []
        begun = perf_counter()
        for index in range(200):
            tape.append((ENTER, perf_counter(), index))
            tape.append((LEAVE, perf_counter(), index))
        return (perf_counter() - begun) / 200 * 2


def _requires_grad(torch, value) -> bool:
    if isinstance(value, torch.Tensor):
        return value.requires_grad
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return any(_requires_grad(torch, v) for v in value)
    return False


def _where(module) -> str | None:
    """file:line of a forward that the user wrote; installed packages' are no help."""
    code = getattr(getattr(type(module), "forward", None), "__code__", None)
    if code is None or "site-packages" in code.co_filename or "dist-packages" in code.co_filename:
        return None
    return "%s:%d" % (os.path.abspath(code.co_filename), code.co_firstlineno)
