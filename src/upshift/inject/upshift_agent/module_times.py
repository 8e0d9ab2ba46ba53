"""Calls of modules, played back: forward, backward and recomputation seconds by module.

Marks come from single micro-steps looked at closely (probes/detail.py): which module was entered and left when, and,
in the backward, when the gradient reached a module's outputs and left through its inputs.
"""

from __future__ import annotations

# Marks: kind, time, index of the module in the table (LEAVE and END need none).
ENTER, LEAVE, REACHED, LEFT, BACKWARD_BEGINS, END = range(6)

_SAME_MOMENT_SECONDS = 2e-5
"""A child's last output is often its parent's: both are reached at once, and the child is meant."""


class ModuleTimes:
    """Sums over the micro-steps played so far."""

    def __init__(self) -> None:
        self.table: list = []
        """One row per module: see events.MODULE_FIELDS."""
        self.parents: list = []
        self.micro_steps = 0
        self.forward = 0.0
        """Seconds in outermost calls."""
        self.distributed = 0
        """Outermost calls of a DistributedDataParallel; `synchronised`: those whose backward exchanges gradients."""
        self.synchronised = 0
        self.backwards = 0
        """In how many of the micro-steps the backward was looked at too."""
        self.backward = 0.0
        """Seconds of those."""
        self.recomputed = 0.0
        """Seconds of module calls inside the backward: activation checkpointing."""

    def add(self, name: str, kind: str, where: str | None, parent: int | None, parameters: int) -> int:
        """A module not seen before; its index."""
        self.parents.append(parent)
        self.table.append([name, kind, where, parameters, 0, 0.0, 0.0, 0.0, None])
        return len(self.table) - 1

    def play(self, marks: list, call_seconds: float, hooked: bool) -> None:
        """Add one micro-step. `call_seconds`: what a look costs the caller; `hooked`: the backward was seen too."""
        self.micro_steps += 1
        self.backwards += hooked
        table = self.table
        stack: list = []
        backward_from = None
        current = None
        reached_at = last = 0.0
        for kind, now, index in marks:
            if kind == ENTER:
                stack.append([index, now, 0.0])
            elif kind == LEAVE:
                if not stack:
                    continue
                entered, begun, inner = stack.pop()
                whole = now - begun
                row = table[entered]
                if backward_from is None:
                    row[4] += 1
                    row[5] += whole
                    row[6] += max(0.0, whole - inner)
                    if not stack:
                        self.forward += whole
                elif not stack:
                    self.recomputed += whole
                if stack:
                    stack[-1][2] += whole + call_seconds
            elif kind == BACKWARD_BEGINS:
                stack.clear()
                backward_from = last = now
            elif kind == END:
                if backward_from is not None and hooked:
                    self._backward(current, now - last)
                    self.backward += now - backward_from
            elif backward_from is not None:
                self._backward(current, now - last)
                last = now
                if kind == REACHED:
                    if not (now - reached_at < _SAME_MOMENT_SECONDS and self._inside(current, index)):
                        current, reached_at = index, now
                elif self._inside(current, index):
                    current = self.parents[index]

    def _backward(self, index: int | None, seconds: float) -> None:
        if index is not None:
            self.table[index][7] += seconds

    def _inside(self, index: int | None, outer: int) -> bool:
        while index is not None:
            if index == outer:
                return True
            index = self.parents[index]
        return False
