"""Loops without the usual objects.

No optimizer to be seen (`p.data.add_`, `w -= lr * w.grad`, a compiled optimizer step): while no optimizer hook has
fired, a few leaf tensors of the graph are compared before and after the gap that follows each backward. If they
changed in it, the loop has stepped by itself.

No module either: the first tensor with a size, going back from the loss through the graph, tells how many samples
the loss was taken over.
"""

from __future__ import annotations

import functools

_LEAVES = 3
_MOST_NODES = 20000
_NODES_TO_BATCH = 12
# On an accelerator reading values synchronises: learn the rhythm from this many backwards, then count.
_READS_ON_DEVICE = 24


def install(torch, recorder) -> None:
    """Watch the leaves of the loss as long as nobody calls an optimizer."""
    watch = _Watch(torch, recorder)
    note_batch = functools.partial(_note_batch, torch, recorder)
    recorder.on_backward.append(recorder.fail_open("manual", watch.note_leaves))
    recorder.on_backward.append(recorder.fail_open("graph_batch", note_batch))
    recorder.on_gap.append(recorder.fail_open("manual", watch.look))


def _note_batch(torch, recorder, tensors) -> None:
    """Where no module was called: samples from the shapes in the graph behind the loss."""
    if recorder.any_call or recorder.pending_micro:
        return
    loss = tensors[0] if isinstance(tensors, (list, tuple)) else tensors
    node = getattr(loss, "grad_fn", None)
    for _ in range(_NODES_TO_BATCH):
        if node is None:
            return
        shape = next((m.shape for m in getattr(node, "_input_metadata", ())), ())
        if len(shape) >= 1 and shape[0] > 1:
            recorder.pending_micro = {"batch": shape[0], "total": shape[0], "calls": 0}
            recorder.device = loss.device.type
            return
        node = next((parent for parent, _ in node.next_functions if parent is not None), None)


def leaves(torch, roots: list, most: int | None = None) -> list:
    """Parameters, found by walking the graph back from the loss; the first few if `most` is given."""
    todo = [t.grad_fn for t in roots if isinstance(t, torch.Tensor) and t.grad_fn is not None]
    seen: set = set()
    found: list = []
    while todo and len(seen) < _MOST_NODES and (most is None or len(found) < most):
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and leaf.numel():
            found.append(leaf)
        todo.extend(parent for parent, _ in node.next_functions)
    return found


class _Watch:
    def __init__(self, torch, recorder) -> None:
        self.torch = torch
        self.recorder = recorder
        self.leaves: list = []
        self.before: list = []
        self.stepped = False
        self._since = 0
        self._rhythm: list = []

    def note_leaves(self, tensors) -> None:
        """Find parameters by walking the graph from the loss, once."""
        if self.leaves or self.recorder.optimizer_steps or self.recorder.backwards < 1:
            return
        roots = tensors if isinstance(tensors, (list, tuple)) else [tensors]
        self.leaves = leaves(self.torch, roots, _LEAVES)
        self.before = [self._print(leaf) for leaf in self.leaves]

    def _print(self, leaf) -> tuple:
        flat = leaf.detach().reshape(-1)
        middle = flat.numel() // 2
        return leaf._version, flat[middle : middle + 8].tolist()

    def look(self) -> None:
        """After a backward and whatever followed it: has a parameter moved?"""
        recorder = self.recorder
        if not self.leaves or (recorder.optimizer_steps and not self.stepped):
            return
        self._since += 1
        if self._moved():
            self.stepped = True
            self._rhythm.append(self._since)
            self._since = 0
            recorder.step_ended("manual")
            if recorder.at_step is not None:
                recorder.at_step(None)

    def _moved(self) -> bool:
        on_device = self.leaves[0].device.type != "cpu"
        if on_device and sum(self._rhythm) >= _READS_ON_DEVICE:
            return self._since >= sorted(self._rhythm)[len(self._rhythm) // 2]
        now = [self._print(leaf) for leaf in self.leaves]
        moved, self.before = now != self.before, now
        return moved
