"""`upshift profile` and `upshift demo`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from upshift.cli.arguments import add_launching, names, positive, whole
from upshift.cli.output import check_output, console, write_document
from upshift.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console


def add_profile(verbs: Any) -> None:
    """The verb."""
    verb = verbs.add_parser(
        "profile",
        help="where does a step's time go?",
        usage="upshift profile [options] -- COMMAND…",
        description="Runs COMMAND for a short while, looks inside, ends it, and shows where a step's time goes. "
        "What the run writes meanwhile goes to scratch.",
    )
    _add_measuring(verb)
    verb.set_defaults(run=_profile)


def add_demo(verbs: Any) -> None:
    """The verb."""
    verb = verbs.add_parser(
        "demo",
        help="the above on a built-in example, in about two minutes",
        usage="upshift demo [options]",
        description="Profiles the built-in pointer-generator summariser (needs torch and pyyaml beside upshift).",
    )
    _add_measuring(verb)
    verb.set_defaults(run=_demo)


def _add_measuring(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--steps", type=whole, metavar="N", help="end after N steps past warm-up")
    verb.add_argument("--seconds", type=positive, metavar="S", help="end S seconds after the first step")
    verb.add_argument("--json", metavar="FILE", help="write the document upshift.profile/1 (- for stdout)")
    verb.add_argument("--keep-outputs", action="store_true", help="let the run write where it always writes")
    verb.add_argument(
        "--compare",
        metavar="FILE",
        nargs="+",
        help="show a profile written before (--json) beside this one; two files need no command",
    )
    verb.add_argument(
        "--trace", metavar="FILE", help="write a few steps as a Chrome trace (Perfetto opens it)"
    )
    verb.add_argument(
        "--no-experiments",
        action="store_true",
        help="only look: do not try at the end of the run what fixes would save",
    )
    verb.add_argument("--experiments", type=names, default=None, help=argparse.SUPPRESS)
    add_launching(verb)


def _profile(options: argparse.Namespace) -> int:
    from upshift.command import understand

    if options.compare and len(options.compare) == 2 and options.command is None:
        return _compare_files(*options.compare)
    if options.compare and len(options.compare) > 1:
        raise UsageError(
            f"--compare takes one file beside a command, or two files and no command, got {len(options.compare)}",
            hint="upshift profile --compare before.json -- COMMAND…",
        )
    if options.command is None:
        raise UsageError(
            "no `--` before the command",
            hint="upshift profile -- python train.py --config config.yaml",
        )
    return _profile_command(options, understand(options.command))


def _demo(options: argparse.Namespace) -> int:
    from upshift.demo import command

    if options.command is not None:
        raise UsageError("demo takes no command", hint="upshift profile -- COMMAND…")
    return _profile_command(options, command())


def _profile_command(options: argparse.Namespace, command: Any) -> int:
    check_output(options.json)
    check_output(options.trace, "--trace")
    before = None
    if options.compare:
        from upshift.report.compare import read

        before = read(options.compare[0])
    from upshift.profile import Request, profile
    from upshift.report.profile_json import document
    from upshift.report.profile_text import show
    from upshift.session import Settings

    talk = console()
    measured, diagnosis, outcome = profile(
        Request(
            command=command,
            steps=options.steps,
            seconds=options.seconds,
            first_step_seconds=options.first_step_timeout,
            timeout_seconds=options.timeout,
            experiments=() if options.no_experiments else options.experiments,
            settings=Settings(
                keep_outputs=options.keep_outputs,
                isolate=options.isolation,
                pass_output=options.show_output,
                trace=options.trace is not None,
            ),
        ),
        talk,
    )
    if options.json:
        write_document(document(measured, diagnosis), options.json)
    if options.trace:
        _write_trace(outcome, options.trace, talk)
    if options.json != "-":
        from rich.console import Console

        show(measured, diagnosis, Console())
        if before is not None:
            from upshift.report.compare import show as show_comparison

            Console().print()
            show_comparison(before, document(measured, diagnosis), Console())
    if outcome.ended_by == "interrupt":
        talk.print("interrupted: the figures rest on the steps seen so far")
        return 130
    return 4 if outcome.ended_by == "timeout" else 0


def _compare_files(before: str, after: str) -> int:
    from rich.console import Console

    from upshift.report.compare import read, show

    show(read(before), read(after), Console())
    return 0


def _write_trace(outcome: Any, path: str, talk: Console) -> None:
    from pathlib import Path

    from upshift.report.trace import chrome_trace
    from upshift.rundir import write_json

    document = chrome_trace(outcome)
    if document is None:
        talk.print("no trace: too few steps were seen")
        return
    write_json(Path(path), document)
    talk.print(
        f"trace of {document['otherData']['steps']} steps in {path}: open it at ui.perfetto.dev",
        highlight=False,
    )
