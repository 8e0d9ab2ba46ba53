"""The command line. Heavy imports wait until a verb needs them: `upshift --help` must stay instant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from upshift import __version__
from upshift.cli.output import write_document
from upshift.cli.profile import add_demo, add_profile
from upshift.cli.run import add_run
from upshift.cli.tune import add_tune, add_undo
from upshift.cli.verify import add_verify
from upshift.errors import ProgramFailed, UpshiftError

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
    for add in (add_profile, add_verify, add_tune, add_run, add_undo, add_demo):
        add(verbs)
    return parser


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
        write_document(report, json_path)
    return error.exit_code
