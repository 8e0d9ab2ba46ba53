"""Did two steps hold the same samples? Rows are compared as multisets, so that neither order nor padding counts.

A row that was padded ends (or begins) in a run of one value. Which values pad is learnt from both sides together: any
that is ever repeated at that end. Rows that end in such a value count without the run, on both sides alike; so the
same sample, padded or not, gets the same name. The last resort is how rows begin: a script that cuts the last column
off a padded batch cuts a token off the longest row only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from upshift.verify.trace import MicroBatch, Row, Step

WHOLE, RIGHT, LEFT, PREFIX = "whole", "right", "left", "prefix"
_END, _BEGINNING, _PREFIX = 1, 4, 7
"""Where a row tells about its end and its beginning: value, run, hash without the run."""


class Naming:
    """How the rows of one input are named, learnt from all steps of both sides."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._right: set[str | int] = set()
        self._left: set[str | int] = set()
        for row in rows:
            if len(row) > 1:
                if int(row[_END + 1]) > 1:
                    self._right.add(row[_END])
                if int(row[_BEGINNING + 1]) > 1:
                    self._left.add(row[_BEGINNING])

    def name(self, row: Row, how: str) -> str:
        """The row's name under one reading of where padding is."""
        if how == RIGHT and len(row) > 1 and row[_END] in self._right:
            return str(row[_END + 2])
        if how == PREFIX and len(row) > 1:
            return str(row[_PREFIX])
        if how == LEFT and len(row) > 1 and row[_BEGINNING] in self._left:
            return str(row[_BEGINNING + 2])
        return str(row[0])


def namings(sides: Sequence[Sequence[Step]]) -> Mapping[str, Naming]:
    """One for each input that reached the model."""
    rows: dict[str, list[Row]] = {}
    for steps in sides:
        for step in steps:
            for micro in step.micro:
                for slot, found in micro.samples.items():
                    rows.setdefault(slot, []).extend(found)
    return {slot: Naming(found) for slot, found in rows.items()}


def names_of(micro: Iterable[MicroBatch], slot: str, naming: Naming, how: str) -> Counter[str]:
    """The samples of some micro-batches as a multiset."""
    return Counter(naming.name(row, how) for m in micro for row in m.samples.get(slot, ()))


def matching(a: Step, b: Step, known: Mapping[str, Naming]) -> tuple[str, str] | None:
    """(input, reading) under which both steps hold the same samples, or None."""
    for slot in _telling(a, b, known):
        for how in (WHOLE, RIGHT, LEFT, PREFIX):
            left, right = (names_of(step.micro, slot, known[slot], how) for step in (a, b))
            if left != right or not left:
                continue
            # The first few values may be the same in many samples: then they name none.
            if how != PREFIX or 2 * len(left) > sum(left.values()):
                return slot, how
    return None


def _telling(a: Step, b: Step, known: Mapping[str, Naming]) -> list[str]:
    """Inputs that tell samples apart. Labels do not: any two steps may hold as many of each."""
    distinct = {
        slot: min(len(names_of(step.micro, slot, naming, WHOLE)) for step in (a, b))
        for slot, naming in known.items()
    }
    most = max(distinct.values(), default=0)
    return [slot for slot, count in distinct.items() if 2 * count > most]


def same_samples(a: Step, b: Step, known: Mapping[str, Naming]) -> bool | None:
    """None where neither side says what it held."""
    if not any(m.samples for m in a.micro) or not any(m.samples for m in b.micro):
        same = same_indices(a, b)
        return True if same else None
    return matching(a, b, known) is not None


def indices_of(step: Step) -> Counter[int]:
    """Which samples of the dataset a step was asked for."""
    return Counter(i for m in step.micro for batch in m.indices for i in batch)


def same_indices(a: Step, b: Step) -> bool | None:
    """None where no loader tells."""
    left, right = indices_of(a), indices_of(b)
    return left == right if left and right else None
