"""Profile → the page in the terminal: the answer, the breakdown, what was observed, the next command."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from upshift.diagnose.diagnosis import WORTH, Diagnosis
from upshift.diagnose.finding import Finding
from upshift.diagnose.limit import Limit
from upshift.measure.modules import Module
from upshift.measure.profile import Phase, Profile
from upshift.report import units

_NAMES = {"data_wait": "data wait", "host_to_device": "host to device"}
_BAR = 16
_NAME = 24
_MOST_CAUSES = 8
_MOST_MODULES = 14
_LEAST_MODULE = 0.02
_PLACE = 32
"""Columns left for a place on an 80-column terminal."""
_COLOURS = {
    "data_wait": "yellow",
    "forward": "cyan",
    "backward": "blue",
    "optimizer": "magenta",
    "loss": "green",
    "logging": "red",
    "other": "red",
}


def show(profile: Profile, diagnosis: Diagnosis, console: Console) -> None:
    """Print the page."""
    console.print(Text(sentence(profile, diagnosis), style="bold"), soft_wrap=True)
    console.print()
    console.print(_breakdown(profile))
    console.print()
    if diagnosis.findings:
        console.print(causes(diagnosis))
        console.print()
    console.print(_facts(profile, diagnosis))
    for line in warnings(profile):
        console.print(Text(f"! {line}", style="yellow"), soft_wrap=True)
    console.print()
    console.print(Text("next: ", style="bold") + Text(next_command(profile)), soft_wrap=True)


def sentence(profile: Profile, diagnosis: Diagnosis) -> str:
    """The answer: where the time goes, and what to do about it."""
    return f"{_where_it_goes(profile)} {_verdict(profile, diagnosis)}"


def _verdict(profile: Profile, diagnosis: Diagnosis) -> str:
    known = [f for f in diagnosis.findings if f.saves is not None and f.saves >= WORTH]
    if known:
        first = known[0]
        more = f", and {len(known) - 1} more" if len(known) > 1 else ""
        sure = "" if first.measured else "at most "
        return f"Main cause: {first.title}; mending it saves {sure}{units.share(first.saves or 0)}{more}."
    if diagnosis.findings and not diagnosis.leave_it:
        return f"Worth a look: {diagnosis.findings[0].title}."
    limit = diagnosis.limit
    if limit is not None:
        return (
            f"Nothing found that would save {units.share(WORTH)}: leave it. "
            f"Its arithmetic runs at {units.share(limit.share)} of this machine's measured limit."
        )
    return f"Nothing found that would save {units.share(WORTH)}: leave it."


def _where_it_goes(profile: Profile) -> str:
    measured = [p for p in profile.phases if p.seconds]
    parts = [f"{units.share(p.share or 0)} {_NAMES.get(p.name, p.name)}" for p in measured[:2]]
    if len(measured) > 2 and (measured[2].share or 0) >= 0.1:
        parts.append(
            f"{units.share(measured[2].share or 0)} {_NAMES.get(measured[2].name, measured[2].name)}"
        )
    speed = ""
    if profile.samples_per_second is not None:
        speed = f" {units.rate(profile.samples_per_second)} samples/s."
    return f"A step takes {units.seconds(profile.step.median)}: {', '.join(parts)}.{speed}"


def causes(diagnosis: Diagnosis) -> Table:
    """The findings: what each would save, the evidence, the fix."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("saves", justify="right", no_wrap=True)
    table.add_column("why it is slow, and what to change")
    for finding in diagnosis.findings[:_MOST_CAUSES]:
        text = Text(finding.title, style="bold")
        if finding.where:
            text.append(f"  {_near(finding.where)}", style="not bold dim")
        for line in finding.evidence:
            text.append(f"\n{line}", style="not bold dim")
        text.append(f"\n→ {finding.fix}", style="not bold green")
        table.add_row(_saves(finding), text)
    return table


def _saves(finding: Finding) -> str:
    if finding.saves is None:
        return "?" if finding.bound is None else f"≤ {units.share(finding.bound)}"
    return units.share(finding.saves) if finding.measured else f"≤ {units.share(finding.saves)}"


def next_command(profile: Profile) -> str:
    """What to type next."""
    return f"upshift profile --json profile.json -- {profile.command}"


def warnings(profile: Profile) -> Iterator[str]:
    """What the reader should know before trusting the page."""
    if profile.step.half_width > 0.1:
        yield (
            f"noisy: the median step is known to ±{units.share(profile.step.half_width)} only; "
            "close other programs, or measure longer with --seconds 120"
        )
    if profile.isolation == "redirect":
        why = f" ({profile.isolation_note})" if profile.isolation_note else ""
        yield f"no overlay on this machine{why}: writes from Python went to scratch, native ones may not have"
    if profile.agent.dropped:
        yield f"{profile.agent.dropped} events were lost: the figures rest on the rest"
    for failure in profile.agent.probe_failures:
        yield f"a probe failed and its part is not measured: {failure}"


def _breakdown(profile: Profile) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("phase", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("where", overflow="ellipsis", no_wrap=True, style="dim")
    for phase in profile.phases:
        table.add_row(*_row(phase))
        if phase.name in ("forward", "backward") and profile.modules is not None:
            for row in _module_rows(profile, phase.name):
                table.add_row(*row)
    return table


def _module_rows(profile: Profile, phase: str) -> Iterator[tuple[str | Text, ...]]:
    """The modules that make up a phase, deeper where that explains more."""
    assert profile.modules is not None
    todo = [(0, m) for m in reversed(profile.modules.roots)]
    shown = 0
    while todo and shown < _MOST_MODULES:
        depth, module = todo.pop()
        seconds = module.forward if phase == "forward" else module.backward
        if seconds is None or seconds / profile.step_mean < _LEAST_MODULE:
            continue
        # A model that is the whole phase is no news: what is in it is.
        if depth or len(profile.modules.roots) > 1 or not module.inside:
            shown += 1
            yield _module_row(profile, module, seconds, depth)
        elif (own := _own(module, phase)) / profile.step_mean >= _LEAST_MODULE:
            shown += 1
            yield _module_row(profile, module, own, depth, itself=True)
        inside = sorted(module.inside, key=lambda m: m.forward if phase == "forward" else m.backward or 0.0)
        todo += [(depth + 1, m) for m in inside]


def _own(module: Module, phase: str) -> float:
    """Seconds outside the modules inside."""
    if phase == "forward":
        return module.own
    return (module.backward or 0.0) - sum(m.backward or 0.0 for m in module.inside)


def _module_row(
    profile: Profile, module: Module, seconds: float, depth: int, *, itself: bool = False
) -> tuple[str | Text, ...]:
    share = seconds / profile.step_mean
    name = module.name.rpartition(".")[2] if depth else module.name
    if name == "*":
        name = ".".join(module.name.split(".")[-2:])
    name = "its own code" if itself else name
    calls = f"×{module.calls:.0f}" if module.calls >= 1.5 else ""
    note = " ".join(part for part in (calls, "" if name == module.kind else module.kind) if part)
    bar = Text("▒" * round(share * _BAR) or "▏", style="dim")
    indent = "  " * (min(depth, 4) + (len(profile.modules.roots) > 1 if profile.modules else 0)) or "  "
    return (
        Text(f"{indent}{name}"[:_NAME], style="dim"),
        Text(units.seconds(seconds), style="dim"),
        Text(units.share(share), style="dim"),
        bar,
        note,
    )


def _row(phase: Phase) -> tuple[str | Text, ...]:
    name = _NAMES.get(phase.name, phase.name)
    if phase.seconds is None or phase.share is None:
        return Text(name, style="dim"), Text("–", style="dim"), "", "", phase.note or "not measured"
    bar = Text(
        "█" * round(phase.share * _BAR) or ("▏" if phase.seconds else ""),
        style=_COLOURS.get(phase.name, "white"),
    )
    return (
        name,
        units.seconds(phase.seconds),
        units.share(phase.share),
        bar,
        _near(str(phase.places[0])) if phase.places else "",
    )


def _near(place: str) -> str:
    """The end of a long path: the folder and the file tell more than the root."""
    if len(place) <= _PLACE:
        return place
    folders = place.split("/")
    while len(folders) > 1 and len("/".join(folders)) > _PLACE - 2:
        folders.pop(0)
    return "…/" + "/".join(folders)


def _facts(profile: Profile, diagnosis: Diagnosis) -> Group:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="dim")
    table.add_column()
    for name, text in facts(profile, diagnosis):
        table.add_row(name, text)
    return Group(table)


def facts(profile: Profile, diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """Label and text of every line below the breakdown."""
    yield "batch", _batch(profile)
    yield "speed", _speed(profile)
    run = profile.run
    parts = [f"start-up {units.seconds(run.startup_seconds)}"]
    for name, total, count in (
        ("evaluation", run.evaluation_seconds, run.evaluations),
        ("saving", run.checkpoint_seconds, run.checkpoints),
    ):
        if count:
            part = units.share(total / run.watched_seconds) if run.watched_seconds else "?"
            parts.append(f"{name} {part} of the time watched ({count}× {units.seconds(total / count)})")
        else:
            parts.append(f"{name} not seen")
    yield "run", " · ".join(parts)
    yield "machine", _machine(profile)
    yield (
        "measured",
        f"{profile.used} steps ({profile.warmup + 1} dropped as warm-up), median "
        f"{units.seconds(profile.step.low)} to {units.seconds(profile.step.high)} (95 %)",
    )
    cost = profile.agent.overhead_share
    seen = "not measured" if cost is None else f"{units.share(cost)} of the run"
    kept = {
        "overlay": "your folders are as they were",
        "redirect": "what Python wrote went to scratch",
        "none": "outputs were kept, as asked",
    }[profile.isolation]
    yield "upshift", f"cost {seen}; {kept}"
    if diagnosis.limit is not None:
        yield "limit", _limit(diagnosis.limit)


def _limit(limit: Limit) -> str:
    text = f"compute at {units.share(limit.share)} of this machine's measured limit"
    if limit.input_factor is not None:
        factor = limit.input_factor
        fed = f"{factor:.0f}×" if factor >= 10 else f"{factor:.1f}×"
        text += f"; input could feed {fed} " + ("more" if factor > 1.05 else "what is used: it is the brake")
    return text


def _batch(profile: Profile) -> str:
    batch = profile.batch
    micro = "not observed" if batch.micro_batch is None else str(batch.micro_batch)
    if batch.varies:
        micro += " (varies)"
    text = f"micro-batch {micro} × accumulation {batch.grad_accum or 'not observed'}"
    if profile.world_size > 1:
        text += f" × {profile.world_size} ranks"
    if batch.micro_batch and batch.grad_accum:
        text += f" = {batch.micro_batch * batch.grad_accum * profile.world_size} samples a step"
    if len(profile.optimizers) > 1:
        named = ", ".join(o.partition("#")[0] for o in profile.optimizers[:3])
        text += (
            f"; {len(profile.optimizers)} optimizers ({named}{', …' if len(profile.optimizers) > 3 else ''})"
        )
    return text


def _speed(profile: Profile) -> str:
    parts = []
    if profile.samples_per_second is not None:
        parts.append(f"{units.rate(profile.samples_per_second)} samples/s")
    if profile.tokens_per_second is not None:
        parts.append(f"{units.rate(profile.tokens_per_second)} tokens/s")
        padding = profile.batch.padding_share
        parts.append("padding not measured" if padding is None else f"padding {units.share(padding)}")
    return " · ".join(parts) or "not observed: no batch reached the model as a tensor"


def _machine(profile: Profile) -> str:
    resources = profile.resources
    parts = [f"{profile.device or 'device not seen'}"]
    if resources.peak_bytes:
        parts.append(f"peak memory {units.size(resources.peak_bytes)}")
    if resources.cpu_cores is not None:
        parts.append(f"{resources.cpu_cores:.1f} of {resources.cores} cores busy")
    if resources.swap_bytes:
        parts.append(f"swapped out {units.size(resources.swap_bytes)}")
    if resources.major_faults:
        parts.append(f"{resources.major_faults} major page faults")
    for gpu in resources.gpu:
        parts.append(f"{gpu['name']} {gpu['utilisation_percent']:.0f} % busy")
    return " · ".join(parts)
