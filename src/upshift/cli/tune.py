"""`upshift tune` and `upshift undo`."""

from __future__ import annotations

import argparse
from typing import Any

from upshift.cli.arguments import add_bindings, add_launching, duration, names, pair, share, size, whole
from upshift.cli.output import check_output, console, write_document
from upshift.errors import NothingMeasured, UsageError


def add_tune(verbs: Any) -> None:
    """The verb."""
    verb = verbs.add_parser(
        "tune",
        help="what is the fastest way to run the same training here?",
        usage="upshift tune [options] -- COMMAND…",
        description="Measures COMMAND as it is, finds where its settings are made, tries what can pay in short runs, "
        "proves that it is the same training, and writes the faster config or command.",
    )
    verb.add_argument(
        "--budget", type=duration, default=600.0, metavar="TIME", help="time for all of it: 10m, 90s"
    )
    verb.add_argument(
        "--precision",
        type=share,
        metavar="PERCENT",
        help="hold old against new until the speed-up is known to this: 3%% (and --budget lasts)",
    )
    verb.add_argument("--memory", type=size, metavar="SIZE", help="most memory for data of a process: 8GiB")
    verb.add_argument(
        "--plan",
        choices=("conservative", "balanced", "aggressive"),
        default="conservative",
        help="conservative: the same mathematics; balanced: lower precision too; aggressive: also shows what shorter "
        "texts or a smaller model would bring and cost",
    )
    verb.add_argument(
        "--only", type=names, default=(), metavar="KNOBS", help="turn only these, e.g. micro_batch,workers"
    )
    verb.add_argument("--skip", type=names, default=(), metavar="KNOBS", help="leave these as they are")
    add_bindings(verb)
    verb.add_argument(
        "--fix",
        action="append",
        default=[],
        type=pair,
        metavar="KNOB=VALUE",
        dest="fixed",
        help="give KNOB this value and try no other",
    )
    verb.add_argument(
        "--strict", action="store_true", help="take nothing but what is the same training to rounding"
    )
    verb.add_argument(
        "--steps-remaining",
        type=whole,
        metavar="N",
        help="steps the training still has: a longer start (compiling) must be earned back by them",
    )
    verb.add_argument(
        "--in-place", action="store_true", help="change your files themselves; `upshift undo` puts them back"
    )
    verb.add_argument(
        "--list-knobs", action="store_true", help="show what can be turned and where, and try nothing"
    )
    verb.add_argument("--json", metavar="FILE", help="write the document upshift.tune/1 (- for stdout)")
    add_launching(verb)
    verb.set_defaults(run=_tune)


def add_undo(verbs: Any) -> None:
    """The verb."""
    verb = verbs.add_parser(
        "undo",
        help="put back what tune --in-place has changed",
        usage="upshift undo",
        description="Puts back the files that the last `upshift tune --in-place` in this folder has changed.",
    )
    verb.set_defaults(run=_undo)


def _tune(options: argparse.Namespace) -> int:
    from upshift.command import understand

    if options.command is None:
        raise UsageError(
            "no `--` before the command", hint="upshift tune -- python train.py --config config.yaml"
        )
    check_output(options.json)
    command = understand(options.command)
    from rich.console import Console

    from upshift import config
    from upshift.apply import apply
    from upshift.knobs.catalogue import BY_NAME
    from upshift.knobs.change import Change
    from upshift.knobs.spoken import parse
    from upshift.real_runs import Launching
    from upshift.report.tune_json import document
    from upshift.report.tune_live import TuneView
    from upshift.report.tune_text import show, show_knobs
    from upshift.search.bench import Request
    from upshift.tuning import look, tune

    fixed = {name: _value(value) for name, value in options.fixed}
    for name in (*options.only, *options.skip, *fixed):
        if name not in BY_NAME:
            raise UsageError(f"no knob is called {name!r}", hint="knobs: " + ", ".join(BY_NAME))
    now = Change(command=command)
    launching = Launching(
        memory_bytes=options.memory,
        isolate=options.isolation,
        first_step_seconds=options.first_step_timeout,
        timeout_seconds=options.timeout,
        precise=options.precision is not None,
    )
    if options.list_knobs:
        with console().status("looking at the run as it is"):
            baseline, seen = look(now, launching)
        if not baseline.ok:
            raise NothingMeasured(f"the run could not be measured: {baseline.outcome} {baseline.why}")
        show_knobs(now, baseline, seen, Console())
        return 0
    request = Request(
        now=now,
        bindings={knob: parse(text, command) for knob, text in options.bindings},
        only=frozenset(options.only),
        skip=frozenset(options.skip),
        fixed=fixed,
        strict=options.strict,
        steps_remaining=options.steps_remaining,
        plan=options.plan,
        budget_seconds=options.budget,
        precision=options.precision,
        memory_limited=options.memory is not None,
        threads=config.threads(),
        cores=config.cores(),
    )
    with TuneView(console()) as view:
        plan = tune(request, launching, view)
    applied = apply(plan.now, plan.change, in_place=options.in_place) if plan.settings else None
    if options.json:
        write_document(document(plan, applied), options.json)
    if options.json != "-":
        show(plan, applied, Console())
    return 0


def _undo(options: argparse.Namespace) -> int:
    from pathlib import Path

    from upshift.apply import undo

    for path in undo(Path.cwd()):
        print(f"put back: {path}")
    return 0


def _value(text: str) -> object:
    """true, 4 or a word."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.isdigit() else text
