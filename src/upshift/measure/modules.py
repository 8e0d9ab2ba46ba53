"""Which module takes the time: the agent's close looks at single micro-steps → seconds a step, by module."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from upshift.eventlog import Event
from upshift.inject.upshift_agent.events import MODULE_FIELDS

_NUMBER = re.compile(r"\.\d+(?=\.|$)")


@dataclass(frozen=True, kw_only=True)
class Module:
    """A module, or all of a numbered list of them, in one optimizer step."""

    name: str
    """Class of the model, then the path; `*` stands for the numbers of a list."""
    kind: str
    where: str | None
    """file:line of a forward that the user wrote."""
    calls: float
    """Calls a step."""
    forward: float
    """Seconds a step, with the modules inside."""
    own: float
    """Seconds a step, without them."""
    backward: float | None
    """Seconds a step, with the modules inside; None where it was not to be had."""
    parameters: int
    frozen: str | None
    """Where nothing in it is trained: `constant`, or why its output is not."""
    inside: tuple[Module, ...]

    @property
    def seconds(self) -> float:
        """Forward and, where known, backward."""
        return self.forward + (self.backward or 0.0)

    def walk(self) -> Iterator[Module]:
        """Yield this module and all inside it."""
        yield self
        for module in self.inside:
            yield from module.walk()


@dataclass(frozen=True, kw_only=True)
class Modules:
    """The tree, in seconds of an average step."""

    roots: tuple[Module, ...]
    """Models called from the loop, longest first."""
    criteria: tuple[Module, ...]
    """Modules with nothing in them, called from the loop: mostly the loss."""
    micro_steps: int
    """How many were looked at."""
    recomputed: float
    """Seconds a step that the backward spends calling modules again: activation checkpointing."""

    def walk(self) -> Iterator[Module]:
        """Every module."""
        for root in self.roots:
            yield from root.walk()


@dataclass
class _Node:
    row: dict[str, Any]
    calls: float = 0.0
    forward: float = 0.0
    own: float = 0.0
    backward: float = 0.0
    parameters: int = 0
    frozen: set[str] = field(default_factory=set)
    inside: dict[str, _Node] = field(default_factory=dict)


def modules(event: Event | None, forward: float, backward: float, micro_steps: float) -> Modules | None:
    """The last table the agent sent, scaled to the phases of an average step of `micro_steps` micro-steps."""
    if event is None or not event["micro_steps"]:
        return None
    looks = event["micro_steps"]
    tree = _tree(event["rows"])
    models = [n for n in tree if n.parameters or n.inside]
    called = sum(n.forward for n in models) / looks * micro_steps
    outermost = sum(n.calls for n in models) / looks
    scale = 1.0
    if called and (outermost <= 1.0 or called > forward):
        scale = forward / called  # one call a micro-step is the whole of the phase: no gaps between calls
    per_step = micro_steps / looks
    backward_scale = backward / event["backward"] if event["backward"] else None
    factors = (per_step, scale * per_step, backward_scale)
    roots = sorted((_module(n, factors) for n in models), key=lambda m: -m.seconds)
    return Modules(
        roots=tuple(roots),
        criteria=tuple(_module(n, factors) for n in tree if n not in models),
        micro_steps=looks,
        recomputed=event["recomputed"] * per_step,
    )


def _tree(rows: list[list[Any]]) -> list[_Node]:
    nodes: dict[str, _Node] = {}
    for values in rows:
        row = dict(zip(MODULE_FIELDS, values, strict=True))
        name = _NUMBER.sub(".*", str(row["name"]))
        node = nodes.setdefault(name, _Node(row={**row, "name": name}))
        node.calls += float(row["calls"])
        node.forward += float(row["forward"])
        node.own += float(row["own"])
        node.backward += float(row["backward"])
        node.parameters += int(row["parameters"])
        node.frozen.add(str(row["frozen"]))
    roots = []
    for name, node in nodes.items():
        parent = name.rpartition(".")[0]
        while parent and parent not in nodes:  # ModuleList and the like are never called themselves
            parent = parent.rpartition(".")[0]
        if parent:
            nodes[parent].inside[name] = node
        else:
            roots.append(node)
    return roots


def _module(node: _Node, factors: tuple[float, float, float | None]) -> Module:
    per_step, forward, backward = factors
    inside = tuple(sorted((_module(n, factors) for n in node.inside.values()), key=lambda m: -m.seconds))
    row = node.row
    own_backward = None if backward is None else node.backward * backward
    module = Module(
        name=str(row["name"]),
        kind=str(row["kind"]),
        where=None if row["where"] is None else str(row["where"]),
        calls=node.calls * per_step,
        forward=node.forward * forward,
        own=node.own * forward,
        backward=own_backward,
        parameters=node.parameters,
        frozen=next(iter(node.frozen)) if len(node.frozen) == 1 and node.frozen != {"None"} else None,
        inside=inside,
    )
    if own_backward is None:
        return module
    return replace(module, backward=own_backward + sum(m.backward or 0.0 for m in inside))
