"""Kinds of arguments, and those that several verbs take."""

from __future__ import annotations

import argparse


def add_launching(verb: argparse.ArgumentParser) -> None:
    """How the command is run."""
    verb.add_argument("--show-output", action="store_true", help="copy the program's output to stderr")
    verb.add_argument(
        "--first-step-timeout",
        type=positive,
        default=300.0,
        metavar="S",
        help="give up when no step has come after S seconds (default 300)",
    )
    verb.add_argument(
        "--timeout",
        type=positive,
        default=1800.0,
        metavar="S",
        help="longest time for the whole run, seconds (default 1800)",
    )
    verb.add_argument(
        "--isolation", choices=("auto", "overlay", "redirect"), default="auto", help=argparse.SUPPRESS
    )


def add_bindings(verb: argparse.ArgumentParser) -> None:
    """Where a knob is set."""
    verb.add_argument(
        "--bind",
        action="append",
        default=[],
        type=pair,
        metavar="KNOB=WHERE",
        dest="bindings",
        help="where KNOB is set: --flag, key= (an override), file.yaml:key, file.py:NAME or file.py:LINE, $VARIABLE",
    )


def names(text: str) -> tuple[str, ...]:
    """a,b"""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def positive(text: str) -> float:
    """A number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"must be a number above 0, got {text!r}")
    return value


def whole(text: str) -> int:
    """A whole number above 0."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number above 0, got {text!r}")
    return int(text)


def duration(text: str) -> float:
    """90s, 10m, 1h: seconds."""
    factor = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text[-1:].lower())
    return positive(text if factor is None else text[:-1]) * (factor or 1.0)


def share(text: str) -> float:
    """3%: 0.03."""
    return positive(text[:-1]) / 100 if text.endswith("%") else positive(text)


def size(text: str) -> int:
    """8GiB: bytes."""
    import re

    match = re.fullmatch(r"([0-9.]+)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if not match:
        raise argparse.ArgumentTypeError(f"must be a size such as 8GiB, got {text!r}")
    return int(positive(match.group(1)) * 1024 ** " KMGT".index(match.group(2).upper() or " "))


def pair(text: str) -> tuple[str, str]:
    """NAME=VALUE"""
    name, found, value = text.partition("=")
    if not found or not name or not value:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {text!r}")
    return name, value
