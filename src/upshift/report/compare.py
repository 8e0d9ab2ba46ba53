"""Two documents of `upshift profile --json`, side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from upshift.errors import UsageError
from upshift.report import units
from upshift.report.profile_json import SCHEMA

Document = dict[str, Any]


def read(path: str) -> Document:
    """A profile written before. Says what is wrong with the file, if something is."""
    hint = "write one with: upshift profile --json before.json -- COMMAND…"
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read --compare {path!r}: {error.strerror}", hint=hint) from error
    except ValueError as error:
        raise UsageError(f"--compare {path!r} is no JSON: {error}", hint=hint) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise UsageError(f"--compare {path!r} holds {schema!r}, not {SCHEMA!r}", hint=hint)
    return dict(document)


def show(before: Document, after: Document, console: Console) -> None:
    """The sentence, then the table."""
    console.print(Text(sentence(before, after), style="bold"), soft_wrap=True)
    console.print()
    console.print(table(before, after))


def sentence(before: Document, after: Document) -> str:
    """How much faster, with what the two intervals allow."""
    old, new = _per_sample(before), _per_sample(after)
    ratio, low, high = old[0] / new[0], old[1] / new[2], old[2] / new[1]
    what = "a sample" if before["effective_batch"] != after["effective_batch"] else "a step"
    if low <= 1.0 <= high:
        return f"No difference to be seen: {what} takes {ratio:.2f}× as long as before ({low:.2f} to {high:.2f})."
    verb = "faster" if ratio > 1 else "slower"
    shown = (ratio, low, high) if ratio > 1 else (1 / ratio, 1 / high, 1 / low)
    return (
        f"{shown[0]:.2f}× {verb}, by {what} ({shown[1]:.2f} to {shown[2]:.2f}); "
        "two runs at two times, not paired: other load counts in."
    )


def _per_sample(document: Document) -> tuple[float, float, float]:
    """Median, low and high seconds; per sample where the batches differ."""
    step = document["step_seconds"]
    samples = document["effective_batch"] or 1
    return step["median"] / samples, step["low"] / samples, step["high"] / samples


def table(before: Document, after: Document) -> Table:
    """Settings, phases and causes of both."""
    result = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    result.add_column("")
    for name in ("before", "after", "change"):
        result.add_column(name, justify="right", no_wrap=True)
    for label, key in (
        ("micro-batch", "micro_batch"),
        ("accumulation", "grad_accum"),
        ("samples a step", "effective_batch"),
    ):
        result.add_row(
            label, *(_text(d[key]) for d in (before, after)), "" if before[key] == after[key] else "≠"
        )
    old, new = before["step_seconds"]["median"], after["step_seconds"]["median"]
    result.add_row("step", units.seconds(old), units.seconds(new), _change(old, new))
    rate = "samples_per_second"
    if before[rate] and after[rate]:
        result.add_row(
            "samples/s", units.rate(before[rate]), units.rate(after[rate]), _change(before[rate], after[rate])
        )
    phases = {p["name"]: p["seconds"] for p in before["phases"]}
    later = {p["name"]: p["seconds"] for p in after["phases"]}
    for name in sorted(phases, key=lambda n: -(phases[n] or 0.0)):
        a, b = phases[name], later.get(name)
        result.add_row(
            f"  {name.replace('_', ' ')}",
            "–" if a is None else units.seconds(a),
            "–" if b is None else units.seconds(b),
            _change(a, b) if a and b else "",
        )
    a, b = before["memory"]["peak_bytes"], after["memory"]["peak_bytes"]
    if a and b:
        result.add_row("peak memory", units.size(a), units.size(b), _change(a, b))
    kinds = {f["kind"]: f for f in before["findings"]}
    now = {f["kind"]: f for f in after["findings"]}
    for kind in [*kinds, *(k for k in now if k not in kinds)]:
        cells = [_saves(found.get(kind)) for found in (kinds, now)]
        mark = "gone" if kind not in now else "new" if kind not in kinds else ""
        result.add_row(f"  cause: {kind.replace('_', ' ')}", *cells, mark)
    return result


def _saves(finding: dict[str, Any] | None) -> str:
    if finding is None:
        return ""
    return "?" if finding["saves_share"] is None else units.share(finding["saves_share"])


def _text(value: object) -> str:
    return "–" if value is None else str(value)


def _change(before: float, after: float) -> str:
    return f"{after / before:.2f}×" if before else ""
