"""Profile → the page in the terminal: the answer, the breakdown, what was observed, the next command."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from upshift.measure.profile import Phase, Profile
from upshift.report import units

_NAMES = {"data_wait": "data wait", "host_to_device": "host to device"}
_BAR = 16
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


def show(profile: Profile, console: Console) -> None:
    """Print the page."""
    console.print(Text(sentence(profile), style="bold"), soft_wrap=True)
    console.print()
    console.print(_breakdown(profile))
    console.print()
    console.print(_facts(profile))
    for line in warnings(profile):
        console.print(Text(f"! {line}", style="yellow"), soft_wrap=True)
    console.print()
    console.print(Text("next: ", style="bold") + Text(next_command(profile)), soft_wrap=True)


def sentence(profile: Profile) -> str:
    """The answer in one sentence."""
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
    return table


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


def _facts(profile: Profile) -> Group:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="dim")
    table.add_column()
    for name, text in facts(profile):
        table.add_row(name, text)
    return Group(table)


def facts(profile: Profile) -> Iterator[tuple[str, str]]:
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
