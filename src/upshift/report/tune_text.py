"""The plan on the terminal: one sentence, the settings before and after, what did not pay, what to run."""

from __future__ import annotations

import shlex

from rich.console import Console
from rich.table import Table
from rich.text import Text

from upshift.apply import Applied
from upshift.knobs.catalogue import (
    BY_NAME,
    FEEDING,
    GRAD_ACCUM,
    LEVERS,
    MICRO_BATCH,
    PLACED,
    THREADS,
    VARIABLES,
)
from upshift.knobs.change import Change
from upshift.knobs.discover import Seen, candidates
from upshift.plan import Plan
from upshift.report import units
from upshift.search.choice import Loss
from upshift.search.trial import Trial

_MOST_REJECTED = 10
_NOUNS = {"evaluation": "evaluation", "saving": "save"}


def show(plan: Plan, applied: Applied | None, console: Console) -> None:
    """Print it."""
    console.print(_sentence(plan))
    if plan.settings:
        console.print()
        console.print(_settings(plan))
        for setting in plan.settings:
            console.print(Text(f"{setting.knob}: {setting.reason}.", style="dim"), highlight=False)
        _show_whole(plan, console)
    if plan.quality:
        console.print()
        console.print(_quality(plan))
        console.print(
            Text(
                "Another training each: nothing of this is taken. Losses are of training, ± their standard error."
            ),
            style="dim",
            highlight=False,
        )
    for note in plan.notes:
        console.print(Text(f"Note: {note}."), highlight=False)
    if plan.rejected:
        console.print()
        console.print(_rejected(plan))
    console.print(
        Text(f"{len(plan.trials)} trials, {units.seconds(plan.tuning_seconds)} in all."), highlight=False
    )
    if applied is not None:
        _show_applied(applied, console)


def _sentence(plan: Plan) -> Text:
    if not plan.settings or plan.speedup is None:
        return Text("Nothing faster was found that is the same training: leave it as it is.", style="bold")
    found, verdict = plan.speedup, plan.verdict
    assert verdict is not None
    if not found.claimed and plan.run_ratio is not None:
        return Text(f"The whole run is about {plan.run_ratio:.2f}× as fast", style="bold green") + Text(
            f", its steps as they were, and {verdict.kind.replace('_', ' ')}: {verdict.because}.",
            style="not bold",
        )
    rate = f"{plan.baseline.samples_per_second:.3g} → {plan.best.samples_per_second:.3g} samples/s"
    return Text(f"{found.ratio:.2f}× as fast", style="bold green") + Text(
        f" ({found.low:.2f} to {found.high:.2f}, started {found.starts} times side by side; {rate}), and "
        f"{verdict.kind.replace('_', ' ')}: {verdict.because}.",
        style="not bold",
    )


def _settings(plan: Plan) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("knob", "before", "after", "gain", "class", "verdict", "where"):
        table.add_column(name, overflow="fold")
    for s in plan.settings:
        gain = f"{s.gain:.2f}×" if s.gain else ""
        before = "default" if s.before is None else str(s.before)
        kind = s.verdict.kind.replace("_", " ")
        table.add_row(s.knob, before, str(s.after), gain, s.effect, kind, str(s.binding))
    return table


def _show_whole(plan: Plan, console: Console) -> None:
    """The whole run before and after, with what is beside its steps; and how long it takes, where that is known."""
    for beside in plan.beside:
        rarer = f", now every {beside.every_after:.0f}" if beside.every_after != beside.every else ""
        each = f"One {_NOUNS[beside.what]} takes {units.seconds(beside.seconds)}"
        console.print(Text(f"{each}, every {beside.every:.0f} steps{rarer}."), highlight=False)
    if plan.run_ratio is not None:
        told = " and ".join(_NOUNS[b.what] + "s" for b in plan.beside)
        console.print(
            Text(f"With {told} the whole run is about {plan.run_ratio:.2f}× as fast."), highlight=False
        )
    if plan.length is None or plan.whole_seconds is None:
        return
    before, after = (units.seconds(s) for s in plan.whole_seconds)
    told_by = plan.length.told_by
    steps = (
        f"The {plan.length.steps} steps that remain"
        if told_by is None
        else (f"The whole training, {plan.length.steps} steps by {told_by}")
    )
    console.print(
        Text(f"{steps}: {before} → {after}, and the tuning took {units.seconds(plan.tuning_seconds)}."),
        highlight=False,
    )


def _quality(plan: Plan) -> Table:
    """Setting · time · quality, measured in short runs."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("setting", "time", "loss at equal steps", "loss at equal time", "validation, as printed"):
        table.add_column(name)
    for row in plan.quality:
        what = f"{row.binding} {row.before} → {row.after}" if row.knob else "the same training"
        printed = f"{row.validation:.4g}" if row.validation is not None else "none"
        losses = [_loss(row.equal_steps), _loss(row.equal_time)]
        if row.extrapolated:  # as if the measured stretch were the whole training
            losses = [f"≈ {losses[0]}, extrapolated", "–"]
        table.add_row(what, f"{row.time:.2f}×", *losses, printed)
    return table


def _loss(loss: Loss | None) -> str:
    return f"{loss.value:.4g} ± {loss.error:.1g} ({loss.steps} steps)" if loss is not None else "not reached"


def _rejected(plan: Plan) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("did not pay, or could not be used")
    table.add_column("why")
    for what, why in plan.rejected[:_MOST_REJECTED]:
        table.add_row(what, why)
    return table


def _show_applied(applied: Applied, console: Console) -> None:
    console.print()
    for path in applied.files:
        console.print(Text(f"written: {path}"), highlight=False)
    for path in applied.in_use:
        console.print(
            Text(f"not changed in place: a running process was started with {path}"), highlight=False
        )
    if applied.backup is not None:
        console.print(
            Text(f"the old contents are in {applied.backup}; `upshift undo` puts them back"), highlight=False
        )
    if applied.diff:
        console.print(Text(applied.diff.rstrip("\n")), highlight=False, soft_wrap=True)
    if applied.patch is not None and applied.patch_root is not None:
        patching = f"patch -d {shlex.quote(str(applied.patch_root))} -p1 < {shlex.quote(str(applied.patch))}"
        console.print(Text("Next: ", style="bold") + Text(patching), highlight=False, soft_wrap=True)
    before = " ".join(f"{name}={shlex.quote(value)}" for name, value in applied.variables)
    command = (before + " " if before else "") + shlex.join(applied.command)
    console.print(Text("Next: ", style="bold") + Text(command), highlight=False, soft_wrap=True)


def show_knobs(now: Change, baseline: Trial, seen: Seen, console: Console) -> None:
    """What can be turned, where, and its value now."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("knob", "seen", "set at", "value", "class"):
        table.add_column(name)
    observed = {MICRO_BATCH.name: baseline.micro_batch, GRAD_ACCUM.name: baseline.grad_accum}
    for knob in (MICRO_BATCH, GRAD_ACCUM, *FEEDING, *PLACED):
        value = observed.get(knob.name)
        found = candidates(knob, value, now, seen) or candidates(knob, None, now, seen)
        for number, candidate in enumerate(found[:4]):
            table.add_row(
                knob.name if not number else "",
                str(value) if value is not None and not number else "",
                str(candidate.binding),
                str(candidate.value),
                knob.effect,
            )
        if not found:
            table.add_row(knob.name, str(value) if value is not None else "", "not found", "", knob.effect)
    for name in dict.fromkeys(knob.name for knob in (THREADS, *VARIABLES, *LEVERS)):
        where = "upshift run --tuned" if BY_NAME[name].lever else "environment"
        table.add_row(name, "", where, "", BY_NAME[name].effect)
    console.print(table)
