"""`upshift verify`."""

from __future__ import annotations

import argparse
from typing import Any

from upshift.cli.arguments import add_bindings, add_launching, pair, positive, whole
from upshift.cli.output import check_output, console, write_document
from upshift.errors import UsageError


def add_verify(verbs: Any) -> None:
    """The verb."""
    verb = verbs.add_parser(
        "verify",
        help="are these two settings the same training?",
        usage="upshift verify --set KNOB=VALUE [options] -- COMMAND…",
        description="Runs COMMAND as it is and changed, a few steps each, seeded and without dropout, and compares "
        "samples, losses, gradients and updates step by step with the noise of the run itself.",
    )
    verb.add_argument(
        "--set",
        action="append",
        default=[],
        type=pair,
        metavar="KNOB=VALUE",
        dest="settings",
        help="micro_batch=4, grad_accum=4, or any name given with --bind",
    )
    add_bindings(verb)
    verb.add_argument("--against", metavar="COMMAND", help="compare with this whole command instead (quoted)")
    verb.add_argument("--steps", type=whole, default=8, metavar="N", help="steps to compare (default 8)")
    verb.add_argument(
        "--tolerance",
        type=positive,
        metavar="E",
        help="call a difference ε up to E the same, whatever the floor",
    )
    verb.add_argument("--float64", action="store_true", help="run both sides in float64")
    verb.add_argument("--json", metavar="FILE", help="write the document upshift.verify/1 (- for stdout)")
    add_launching(verb)
    verb.set_defaults(run=_verify)


def _verify(options: argparse.Namespace) -> int:
    from upshift.command import understand

    if options.command is None:
        raise UsageError(
            "no `--` before the command",
            hint="upshift verify --set micro_batch=4 --set grad_accum=4 -- python train.py --config config.yaml",
        )
    check_output(options.json)
    command = understand(options.command)
    if not options.settings and not options.against:
        raise UsageError(
            "nothing to compare the command with",
            hint="--set micro_batch=4 --set grad_accum=4, or --against 'python train.py --other'",
        )
    from upshift.verify.ask import ask

    talk = console()
    answer = ask(options, command, talk)
    from upshift.report.verify_json import document

    if options.json:
        write_document(document(answer), options.json)
    if options.json != "-":
        from rich.console import Console

        from upshift.report.verify_text import show

        show(answer, Console())
    return {"different": 5, "unknown": 3}.get(answer.verdict.kind, 0)
