"""A verdict on the terminal: the sentence, the reasons, each step's difference against the floor, what to do."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table
from rich.text import Text

from upshift.verify.compare import Difference
from upshift.verify.verdict import DIFFERENT, REORDERED, SAME, UNKNOWN, WITHIN_NOISE, Verdict
from upshift.verify.verify import Answer

_WORDS = {
    SAME: ("The same training", "bold green"),
    REORDERED: ("The same samples, another order", "bold green"),
    WITHIN_NOISE: ("The same within noise", "bold green"),
    DIFFERENT: ("Not the same training", "bold red"),
    UNKNOWN: ("Cannot be told", "bold yellow"),
}
_PLOT = 24
_MOST_STEPS = 12


def show(answer: Answer, console: Console) -> None:
    """Print it."""
    verdict = answer.verdict
    word, style = _WORDS[verdict.kind]
    console.print(Text(word, style=style) + Text(f": {verdict.because}.", style="not bold"))
    for sentence in verdict.evidence:
        console.print(Text(f"  {sentence}."), highlight=False)
    console.print()
    console.print(Text(_sides(answer)), highlight=False)
    if verdict.steps:
        console.print(_steps(verdict))
    for sentence in verdict.today:
        console.print(Text("Today: ", style="bold yellow") + Text(sentence + "."), highlight=False)
    console.print(Text("Next: ", style="bold") + Text(_next(answer)), highlight=False)


def _sides(answer: Answer) -> str:
    a, b = answer.a, answer.b
    turned = ", ".join(f"{answer.bindings.get(k, k)} → {v}" for k, v in answer.question.settings.items())
    what = f"  ({turned})" if turned else ""
    return f"a: {_batch(a)}   b: {_batch(b)}{what}   {len(answer.verdict.steps)} steps compared, {answer.runs} runs"


def _batch(trace: object) -> str:
    micro, accum = getattr(trace, "micro_batch", None), getattr(trace, "grad_accum", None)
    world = getattr(trace, "world_size", 1)
    return f"{micro or '?'} × {accum or '?'}" + (f" × {world} ranks" if world > 1 else "")


def _steps(verdict: Verdict) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, justify in (
        ("step", "right"),
        ("loss a", "right"),
        ("loss b", "right"),
        ("ε", "right"),
        ("ρ", "right"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    table.add_column("1e-8 · floor   ▪ ε     1")
    table.add_column("samples")
    floors = {d.step: d.epsilon for d in verdict.floors}
    for d in verdict.steps[:_MOST_STEPS]:
        table.add_row(
            str(d.step + 1),
            _number(d.loss_a),
            _number(d.loss_b),
            f"{d.epsilon:.1e}" if d.epsilon else "0",
            f"{d.rho:.4f}",
            _plot(d, floors.get(d.step)),
            {True: "same", False: "other", None: "?"}[d.samples],
        )
    if len(verdict.steps) > _MOST_STEPS:
        table.add_row("…")
    return table


def _number(value: float | None) -> str:
    return f"{value:.5g}" if value is not None else "-"


def _plot(d: Difference, floor: float | None) -> Text:
    """One line: where the difference and the noise lie on a logarithmic scale."""
    line = [" "] * _PLOT
    if floor is not None:
        line[_place(floor)] = "·"
    line[_place(d.epsilon)] = "▪"
    return Text("│" + "".join(line) + "│")


def _place(value: float) -> int:
    if value <= 1e-8 or not math.isfinite(value):
        return 0 if value <= 1e-8 else _PLOT - 1
    return min(_PLOT - 1, int((math.log10(value) + 8) / 8 * (_PLOT - 1)))


def _next(answer: Answer) -> str:
    verdict = answer.verdict
    if verdict.same:
        files = [str(path) for path in answer.other.files]
        if files:
            return "set " + ", ".join(
                f"{binding} to {answer.question.settings[k]}" for k, binding in answer.bindings.items()
            )
        return str(answer.other.command)
    if verdict.kind == DIFFERENT:
        return "mend the cause, or keep the setting you have; upshift verify again tells"
    return "make the run repeat itself (seed it, no time or set order in its data), then ask again"
