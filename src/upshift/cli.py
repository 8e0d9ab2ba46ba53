"""The command line. Heavy imports wait until a verb needs them: `upshift --help` must stay instant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from upshift import __version__
from upshift.errors import ProgramFailed, UpshiftError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

_EPILOG = """\
COMMAND is what you type today, unchanged: python train.py …, python -m pkg.train …, bash run.sh,
torchrun …, accelerate launch …

exit codes: 0 done · 1 your program failed · 2 bad usage · 3 nothing could be measured · 4 stopped by a limit
5 not the same training (verify)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. Returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    ours, theirs = _split(arguments)
    options = _parser().parse_args(ours)
    if options.verb is None:
        _parser().print_help(sys.stderr)
        return 2
    options.command = theirs
    try:
        code: int = options.run(options)
        return code
    except UpshiftError as error:
        return _say(error, getattr(options, "json", None))
    except KeyboardInterrupt:
        print("upshift: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 141


def _split(arguments: list[str]) -> tuple[list[str], list[str] | None]:
    """Everything after the first `--` is the user's."""
    if "--" not in arguments:
        return arguments, None
    cut = arguments.index("--")
    return arguments[:cut], arguments[cut + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="upshift",
        usage="upshift VERB [options] -- COMMAND…",
        description="Makes the PyTorch training run you already have faster, and proves it is the same run.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"upshift {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    _add_profile(verbs)
    _add_verify(verbs)
    _add_tune(verbs)
    _add_undo(verbs)
    _add_demo(verbs)
    return parser


def _add_profile(verbs: Any) -> None:
    verb = verbs.add_parser(
        "profile",
        help="where does a step's time go?",
        usage="upshift profile [options] -- COMMAND…",
        description="Runs COMMAND for a short while, looks inside, ends it, and shows where a step's time goes. "
        "What the run writes meanwhile goes to scratch.",
    )
    _add_measuring(verb)
    verb.set_defaults(run=_profile)


def _add_verify(verbs: Any) -> None:
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
        type=_pair,
        metavar="KNOB=VALUE",
        dest="settings",
        help="micro_batch=4, grad_accum=4, or any name given with --bind",
    )
    verb.add_argument(
        "--bind",
        action="append",
        default=[],
        type=_pair,
        metavar="KNOB=WHERE",
        dest="bindings",
        help="where KNOB is set: --flag, key= (an override), file.yaml:key, file.py:NAME or file.py:LINE, $VARIABLE",
    )
    verb.add_argument("--against", metavar="COMMAND", help="compare with this whole command instead (quoted)")
    verb.add_argument(
        "--steps", type=_positive_int, default=8, metavar="N", help="steps to compare (default 8)"
    )
    verb.add_argument(
        "--tolerance",
        type=_positive,
        metavar="E",
        help="call a difference ε up to E the same, whatever the floor",
    )
    verb.add_argument("--float64", action="store_true", help="run both sides in float64")
    verb.add_argument("--json", metavar="FILE", help="write the document upshift.verify/1 (- for stdout)")
    _add_launching(verb)
    verb.set_defaults(run=_verify)


def _add_tune(verbs: Any) -> None:
    verb = verbs.add_parser(
        "tune",
        help="what is the fastest way to run the same training here?",
        usage="upshift tune [options] -- COMMAND…",
        description="Measures COMMAND as it is, finds where its settings are made, tries what can pay in short runs, "
        "proves that it is the same training, and writes the faster config or command.",
    )
    verb.add_argument(
        "--budget", type=_duration, default=600.0, metavar="TIME", help="time for all of it: 10m, 90s"
    )
    verb.add_argument("--memory", type=_bytes, metavar="SIZE", help="most memory for data of a process: 8GiB")
    verb.add_argument(
        "--plan",
        choices=("conservative", "balanced"),
        default="conservative",
        help="conservative: the same mathematics; balanced: lower precision too",
    )
    verb.add_argument(
        "--only", type=_names, default=(), metavar="KNOBS", help="turn only these, e.g. micro_batch,workers"
    )
    verb.add_argument("--skip", type=_names, default=(), metavar="KNOBS", help="leave these as they are")
    verb.add_argument(
        "--bind",
        action="append",
        default=[],
        type=_pair,
        metavar="KNOB=WHERE",
        dest="bindings",
        help="as for verify",
    )
    verb.add_argument(
        "--in-place", action="store_true", help="change your files themselves; `upshift undo` puts them back"
    )
    verb.add_argument(
        "--list-knobs", action="store_true", help="show what can be turned and where, and try nothing"
    )
    verb.add_argument("--json", metavar="FILE", help="write the document upshift.tune/1 (- for stdout)")
    _add_launching(verb)
    verb.set_defaults(run=_tune)


def _add_undo(verbs: Any) -> None:
    verb = verbs.add_parser(
        "undo",
        help="put back what tune --in-place has changed",
        usage="upshift undo",
        description="Puts back the files that the last `upshift tune --in-place` in this folder has changed.",
    )
    verb.set_defaults(run=_undo)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _duration(text: str) -> float:
    factor = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text[-1:].lower())
    return _positive(text if factor is None else text[:-1]) * (factor or 1.0)


def _bytes(text: str) -> int:
    import re

    match = re.fullmatch(r"([0-9.]+)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if not match:
        raise argparse.ArgumentTypeError(f"must be a size such as 8GiB, got {text!r}")
    return int(_positive(match.group(1)) * 1024 ** " KMGT".index(match.group(2).upper() or " "))


def _pair(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found or not name or not value:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {text!r}")
    return name, value


def _add_demo(verbs: Any) -> None:
    verb = verbs.add_parser(
        "demo",
        help="the above on a built-in example, in about two minutes",
        usage="upshift demo [options]",
        description="Profiles the built-in pointer-generator summariser (needs torch and pyyaml beside upshift).",
    )
    _add_measuring(verb)
    verb.set_defaults(run=_demo)


def _add_measuring(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--steps", type=_positive_int, metavar="N", help="end after N steps past warm-up")
    verb.add_argument("--seconds", type=_positive, metavar="S", help="end S seconds after the first step")
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
    verb.add_argument("--experiments", type=_kinds, default=None, help=argparse.SUPPRESS)
    _add_launching(verb)


def _add_launching(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--show-output", action="store_true", help="copy the program's output to stderr")
    verb.add_argument(
        "--first-step-timeout",
        type=_positive,
        default=300.0,
        metavar="S",
        help="give up when no step has come after S seconds (default 300)",
    )
    verb.add_argument(
        "--timeout",
        type=_positive,
        default=1800.0,
        metavar="S",
        help="longest time for the whole run, seconds (default 1800)",
    )
    verb.add_argument(
        "--isolation", choices=("auto", "overlay", "redirect"), default="auto", help=argparse.SUPPRESS
    )


def _kinds(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"must be a number above 0, got {text!r}")
    return value


def _positive_int(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number above 0, got {text!r}")
    return int(text)


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
    _check_output(options.json)
    _check_output(options.trace, "--trace")
    before = None
    if options.compare:
        from upshift.report.compare import read

        before = read(options.compare[0])
    from upshift.profile import Request, profile
    from upshift.report.profile_json import document
    from upshift.report.profile_text import show
    from upshift.session import Settings

    talk = _console()
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
        _write(document(measured, diagnosis), options.json)
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


def _verify(options: argparse.Namespace) -> int:
    from upshift.command import understand

    if options.command is None:
        raise UsageError(
            "no `--` before the command",
            hint="upshift verify --set micro_batch=4 --set grad_accum=4 -- python train.py --config config.yaml",
        )
    _check_output(options.json)
    command = understand(options.command)
    if not options.settings and not options.against:
        raise UsageError(
            "nothing to compare the command with",
            hint="--set micro_batch=4 --set grad_accum=4, or --against 'python train.py --other'",
        )
    from upshift.verify.ask import ask

    talk = _console()
    answer = ask(options, command, talk)
    from upshift.report.verify_json import document

    if options.json:
        _write(document(answer), options.json)
    if options.json != "-":
        from rich.console import Console

        from upshift.report.verify_text import show

        show(answer, Console())
    return {"different": 5, "unknown": 3}.get(answer.verdict.kind, 0)


def _tune(options: argparse.Namespace) -> int:
    from upshift.command import understand

    if options.command is None:
        raise UsageError(
            "no `--` before the command", hint="upshift tune -- python train.py --config config.yaml"
        )
    _check_output(options.json)
    command = understand(options.command)
    from rich.console import Console

    from upshift.apply import apply
    from upshift.knobs.binding import parse
    from upshift.knobs.change import Change
    from upshift.knobs.knob import BY_NAME
    from upshift.report.tune_json import document
    from upshift.report.tune_text import show, show_knobs
    from upshift.tuning import Options, look, tune

    for name in (*options.only, *options.skip):
        if name not in BY_NAME and name != "threads":
            raise UsageError(f"no knob is called {name!r}", hint="knobs: " + ", ".join([*BY_NAME, "threads"]))
    now = Change(command=command)
    how = Options(
        bindings={knob: parse(text, command) for knob, text in options.bindings},
        only=frozenset(options.only),
        skip=frozenset(options.skip),
        plan=options.plan,
        budget_seconds=options.budget,
        memory_bytes=options.memory,
        isolate=options.isolation,
        first_step_seconds=options.first_step_timeout,
        timeout_seconds=options.timeout,
    )
    talk = _console()
    if options.list_knobs:
        baseline, seen = look(now, how)
        show_knobs(now, baseline, seen, Console())
        return 0
    plan = tune(now, how, lambda text: talk.print(text, highlight=False))
    applied = apply(plan.now, plan.change, in_place=options.in_place) if plan.settings else None
    if options.json:
        _write(document(plan, applied), options.json)
    if options.json != "-":
        show(plan, applied, Console())
    return 0


def _undo(options: argparse.Namespace) -> int:
    from pathlib import Path

    from upshift.apply import undo

    for path in undo(Path.cwd()):
        print(f"put back: {path}")
    return 0


def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True)


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


def _check_output(path: str | None, flag: str = "--json") -> None:
    """Say now, not after a minute of measuring, that the file cannot be written."""
    if path in (None, "-"):
        return
    import os

    assert path is not None
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise UsageError(
            f"cannot write {flag} {path!r}: {folder!r} is not a folder upshift may write to",
            hint="give a file in an existing folder, or - for stdout",
        )


def _write(document: dict[str, Any], path: str) -> None:
    import json
    from pathlib import Path

    if path == "-":
        print(json.dumps(document, indent=2))
        return
    from upshift.rundir import write_json

    try:
        write_json(Path(path), document)
    except OSError as error:
        raise UsageError(f"cannot write --json {path!r}: {error.strerror}") from error


def _say(error: UpshiftError, json_path: str | None) -> int:
    """The error on stderr; with --json, as a document too, so that programs need not parse talk."""
    if isinstance(error, ProgramFailed) and error.output:
        sys.stderr.write(error.output)
        if not error.output.endswith("\n"):
            sys.stderr.write("\n")
    print(f"upshift: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)
    if json_path and error.exit_code != 2:
        report = {"schema": "upshift.error/1", "error": error.kind, "message": error.message}
        if isinstance(error, ProgramFailed):
            report["program_exit_code"] = error.program_exit_code  # type: ignore[assignment]
        _write(report, json_path)
    return error.exit_code
