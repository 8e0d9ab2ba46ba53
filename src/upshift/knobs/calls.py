"""Calls in code, and their keyword arguments: where one stands, and where one that is not there would go.

For what people leave to its default: `DataLoader(data, batch_size=8)` says nothing of workers.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from upshift.knobs.code import called, line_offsets, literal, span


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of something by name."""

    callee: str
    """The last part of the name: `DataLoader` of `torch.utils.data.DataLoader`."""
    line: int
    end_line: int
    keywords: dict[str, tuple[object, int, int]]
    """(literal value or NOTHING, start, stop) by name."""
    insert: int
    """Offset behind the last argument, or of the closing bracket where there is none."""
    opened: bool
    """`*args` or `**kwargs` are passed: what they set cannot be seen."""


def calls(text: str) -> list[Call]:
    """All calls by name, in the order of the text. Raises SyntaxError for what is not Python."""
    offsets = line_offsets(text)
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        name = called(node)
        if not name:
            continue
        spans = [span(a, text, offsets) for a in (*node.args, *(k.value for k in node.keywords))]
        keywords = {
            k.arg: (literal(k.value), *span(k.value, text, offsets))
            for k in node.keywords
            if k.arg is not None
        }
        found.append(
            Call(
                callee=name,
                line=node.lineno,
                end_line=node.end_lineno or node.lineno,
                keywords=keywords,
                insert=max((stop for _, stop in spans), default=span(node, text, offsets)[1] - 1),
                opened=any(k.arg is None for k in node.keywords)
                or any(isinstance(a, ast.Starred) for a in node.args),
            )
        )
    return sorted(found, key=lambda c: (c.line, c.insert))


def with_argument(text: str, call: Call, name: str, value: object) -> str | None:
    """The text with this keyword argument set in this call; None where that cannot be done."""
    if name in call.keywords:
        _, start, stop = call.keywords[name]
        changed = text[:start] + repr(value) + text[stop:]
    else:
        glue = "" if text[: call.insert].endswith("(") else ", "
        changed = text[: call.insert] + f"{glue}{name}={value!r}" + text[call.insert :]
    try:  # brackets round the last argument would have caught it
        same = [c for c in calls(changed) if c.callee == call.callee and c.line == call.line]
    except SyntaxError:
        return None
    return changed if any(c.keywords.get(name, (None,))[0] == value for c in same) else None
