"""What the optimizer steps were made of, collected as it happens and sent step by step."""

from __future__ import annotations

import weakref
from threading import get_ident
from time import perf_counter

from ...levers.walk import Walk
from ..manual import leaves
from ..wrap import compiling_check
from . import samples
from .sketch import Sketcher, packed

_MICRO_STEPS = 2
"""Steps whose micro-batches are sketched one by one."""
_MOST_MICRO = 64


class _Followed:
    """One optimizer: its parameters, their sketcher and their walk."""

    def __init__(self, number: int, optimizer) -> None:
        self.number = number
        self.optimizer = None if optimizer is None else weakref.ref(optimizer)
        self.parameters: list = []
        self.sketcher = None
        self.walk = None
        self.steps = 0
        self.fresh = None
        """(sketch, squared norm) of the gradient before it was clipped."""


class Witness:
    """Collects one step after the other."""

    def __init__(self, torch, recorder, hold: bool) -> None:
        self.torch = torch
        self.recorder = recorder
        self.hold = hold
        self.followed: dict = {}
        self.names: dict = {}
        self.normed: list = []
        self.model = None
        self.seconds = 0.0
        self._seen: set = set()
        self._looking = None
        self._inner: dict = {}
        self._new_step()
        self._new_micro()
        self._indices: list = []
        self._manual = None

    def _new_step(self) -> None:
        self.micro: list = []
        self.micro_sketches: list = []
        self.clips = 0
        self.scheduler_steps = 0
        self._sketched = None
        self._made = 0

    def _new_micro(self) -> None:
        self._first = None
        self._slots: dict = {}
        self._labels: list = []
        self._dice = None
        self._dtype = None
        self._calls = 0

    # ---- what a micro-step is made of ----

    def model_called(self, module, args, kwargs) -> None:
        """An outermost call with gradients is about to run."""
        begun = perf_counter()
        self._note_names(module)
        if self._first is None:
            self._first = id(module)
            self._dice = self.torch.default_generator.get_state()
            self._dtype = self._inner.get(id(module)) or self._computing(module)
            if id(module) not in self._inner:
                self._look_inside(module)
        if self._first == id(module):
            self._calls += 1
            seen = self.recorder.pending_micro
            if seen.get("batch"):
                rows = samples.rows_of(self.torch, args, kwargs, seen.get("dim", 0), seen["batch"])
                for slot, found in rows.items():
                    self._slots.setdefault(slot, []).extend(found)
        self.seconds += perf_counter() - begun

    def _note_names(self, module) -> None:
        if id(module) in self._seen:
            return
        self._seen.add(id(module))
        for name, parameter in module.named_parameters():
            self.names.setdefault(id(parameter), name[7:] if name.startswith("module.") else name)
        norm = self.torch.nn.modules.batchnorm._BatchNorm
        self.normed.extend(m for m in module.modules() if isinstance(m, norm))

    def _look_inside(self, model) -> None:
        """A model may begin its autocast in its own forward: its first layer knows better what it computes in.

        Once, in the first micro-step: a hook that comes and goes would have a compiled layer compiled again.
        """
        is_compiling = compiling_check(self.torch)

        def look(module, args) -> None:
            if (
                is_compiling()
                or module is model
                or not module._parameters
                or get_ident() != self.recorder.thread
            ):
                return
            self._dtype = self._inner[id(model)] = self._computing(module)
            self._stop_looking()

        self._stop_looking()
        self._inner[id(model)] = ""
        self._looking = self.torch.nn.modules.module.register_module_forward_pre_hook(look)

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.remove()
            self._looking = None

    def _computing(self, module) -> str:
        """The dtype the model computes in."""
        torch = self.torch
        parameter = next(module.parameters(), None)
        device = parameter.device.type if parameter is not None else "cpu"
        try:
            if torch.is_autocast_enabled(device):
                return str(torch.get_autocast_dtype(device))
        except TypeError:  # an older torch
            pass
        return str(parameter.dtype) if parameter is not None else "none"

    def loss_taken(self, row: list) -> None:
        """A loss function has returned."""
        if len(self._labels) < 8:
            self._labels.append(row)

    def batch_indices(self, indices) -> None:
        """A loader handed over a batch made of these samples of its dataset."""
        if not self.recorder.window:
            self._indices.append(indices)

    def backward_begins(self, tensors) -> None:
        """The outermost backward of a micro-step."""
        begun = perf_counter()
        self._stop_looking()
        if not self.followed:
            self._follow_leaves(tensors)
        values = []
        for tensor in tensors if isinstance(tensors, (list, tuple)) else [tensors]:
            if isinstance(tensor, self.torch.Tensor) and tensor.numel() == 1:
                values.append(float(tensor.detach()))
        drawn = self._dice is not None and not self.torch.equal(
            self._dice, self.torch.default_generator.get_state()
        )
        self.micro.append(
            {
                "loss": values,
                "labels": self._labels,
                "samples": self._slots,
                "indices": self._indices,
                "drawn": drawn,
                "dtype": self._dtype,
                "batch": self.recorder.pending_micro.get("total"),
                "calls": self._calls,
            }
        )
        self._new_micro()
        self._indices = []
        self.seconds += perf_counter() - begun

    def backward_ended(self) -> None:
        """Gradients have been added: for some steps, what this micro-batch added."""
        if self._manual is not None:
            self._prepare(self._manual)
            self._manual.fresh = self._manual.sketcher.sketch(_gradients(self._manual))
        if len(self.micro) > _MOST_MICRO or len(self.followed) != 1:
            return
        followed = next(iter(self.followed.values()))
        if followed.steps >= _MICRO_STEPS:
            return
        begun = perf_counter()
        self._prepare(followed)
        self.micro_sketches.append(packed(followed.sketcher.sketch(_gradients(followed))[0]))
        self.seconds += perf_counter() - begun

    def _follow_leaves(self, tensors) -> None:
        """No optimizer: the parameters are the leaves of the graph."""
        roots = tensors if isinstance(tensors, (list, tuple)) else [tensors]
        self._manual = _Followed(0, None)
        self._manual.parameters = sorted(
            leaves(self.torch, roots),
            key=lambda p: list(self.names).index(id(p)) if id(p) in self.names else -1,
        )
        self.followed[0] = self._manual

    # ---- the step ----

    def follow(self, optimizer) -> None:
        """An optimizer was given parameters."""
        if self._manual is not None:  # an optimizer after all
            self.followed.clear()
            self._manual = None
        followed = self.followed.get(id(optimizer))
        if followed is None:
            followed = self.followed[id(optimizer)] = _Followed(len(self.followed), optimizer)
        followed.sketcher = None

    def _prepare(self, followed) -> None:
        if followed.sketcher is not None:
            return
        kind = "manual"
        if followed.optimizer is not None:
            optimizer = followed.optimizer()
            kind = type(optimizer).__name__
            followed.parameters = [p for g in optimizer.param_groups for p in g["params"] if p.requires_grad]
        if not followed.parameters:
            raise RuntimeError("nothing to train")
        followed.sketcher = Sketcher(self.torch, followed.parameters)
        start = followed.sketcher.sketch(followed.parameters)
        if self.hold and followed.optimizer is not None:
            followed.walk = Walk(self.torch, followed.parameters)
        self.recorder.emitter.emit(
            "witness_model",
            optimizer=followed.number,
            optimizer_class=kind,
            parameters=[
                [self.names.get(id(p), "parameter %d" % n), list(p.shape)]
                for n, p in enumerate(followed.parameters)
            ],
            width=followed.sketcher.width,
            start=packed(start[0]),
            normed=len([m for m in self.normed if m.training]),
        )

    def clipping(self) -> None:
        """Gradients are about to be clipped."""
        begun = perf_counter()
        self.clips += 1
        for followed in self.followed.values():
            self._prepare(followed)
            followed.fresh = followed.sketcher.sketch(_gradients(followed))
        self.seconds += perf_counter() - begun

    def step_begins(self, optimizer) -> None:
        """The gradient as the optimizer gets it."""
        begun = perf_counter()
        followed = self.followed.get(id(optimizer))
        if followed is None:
            self.follow(optimizer)
            followed = self.followed[id(optimizer)]
        self._prepare(followed)
        self._sketched = followed.sketcher.sketch(_gradients(followed)) if self.micro else None
        self._made = len(self.micro)
        self.seconds += perf_counter() - begun

    def manual_step(self, optimizer) -> None:
        """The loop has moved the parameters by itself."""
        if optimizer is None and self._manual is not None:
            self._step_ended(self._manual, ())

    def step_ended(self, optimizer) -> None:
        """Send the step, undo it, go on."""
        self._step_ended(self.followed[id(optimizer)], optimizer.param_groups)

    def _step_ended(self, followed, groups) -> None:
        begun = perf_counter()
        gradients = _gradients(followed)
        # A closure has computed (the rest of) the gradient inside the step: then it is read now.
        inside = self._sketched is None or len(self.micro) != self._made
        after = followed.sketcher.sketch(gradients) if inside else self._sketched
        before = followed.fresh or after
        update = None
        if followed.walk is not None:
            update = followed.sketcher.sketch(followed.walk.updates())
        self.recorder.emitter.emit(
            "witness",
            step=followed.steps,
            optimizer=followed.number,
            micro=self.micro,
            micro_sketches=self.micro_sketches,
            sketch=packed(before[0]),
            norm=before[1] ** 0.5,
            norm_after=after[1] ** 0.5,
            missing=[n for n, g in enumerate(gradients) if g is None],
            update=packed(update[0]) if update else None,
            update_norm=update[1] ** 0.5 if update else None,
            clips=self.clips,
            scheduler_steps=self.scheduler_steps,
            lr=sorted({float(g["lr"]) for g in groups if "lr" in g}),
            normed=[
                [float(m.running_mean.norm()), float(m.running_var.norm())]
                for m in self.normed[:4]
                if m.training and m.running_mean is not None
            ],
            cost=self.seconds + perf_counter() - begun,
        )
        self.recorder.emitter.flush()
        followed.fresh = None
        followed.steps += 1
        if followed.walk is not None:
            followed.walk.go_on(followed.steps)
        self._new_step()
        self.seconds += perf_counter() - begun


def _gradients(followed) -> list:
    return [p.grad for p in followed.parameters]
