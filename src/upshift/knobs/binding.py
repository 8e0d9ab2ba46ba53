"""Where the user sets something, and how to set it there: one class a kind, one method each.

As text (`--bind micro_batch=TEXT`, and in what upshift prints):

    --batch-size             a flag of the command, or of a flag in the shell script it runs
    trainer.batch_size=      an override on the command line, as hydra takes them
    config.yaml:train.batch  a key of a config file; without the file, the one that the command names
    train.py:BATCH           a value in code, by name (main.BATCH if there are several) or by line
    train.py:DataLoader(num_workers)  an argument of a call in code, there or not yet there
    $BATCH                   a variable of the environment
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from upshift.command import Command
from upshift.errors import UsageError
from upshift.knobs import calls, code, config_file
from upshift.knobs.change import Change

_SHELL = (".sh", ".bash", ".slurm", ".sbatch")


@dataclass(frozen=True)
class Binding:
    """A place where a setting is made."""

    def apply(self, change: Change, value: object) -> Change:
        """The change with this setting turned to `value`."""
        raise NotImplementedError

    def now(self, change: Change) -> object:
        """The value it has, or None where it is not written down."""
        raise NotImplementedError


@dataclass(frozen=True)
class Flag(Binding):
    """`--batch-size 8` or `--batch-size=8`."""

    name: str

    def __str__(self) -> str:
        return self.name

    def now(self, change: Change) -> object:
        """As given on the command line or in the shell script it runs."""
        argv = change.command.argv
        for i, argument in enumerate(argv):
            if argument == self.name and i + 1 < len(argv):
                return value_of(argv[i + 1]) if not argv[i + 1].startswith("--") else None
            if argument.startswith(self.name + "="):
                return value_of(argument.partition("=")[2])
        script = shell_script(change.command)
        if script is not None and (match := self._in(change.text(script))):
            return value_of(match.group(2).strip("\"'"))
        return None

    def apply(self, change: Change, value: object) -> Change:
        """Replace the value where the flag stands, or add the flag."""
        argv = list(change.command.argv)
        for i, argument in enumerate(argv):
            if argument == self.name and i + 1 < len(argv):
                if argv[i + 1].startswith("--"):
                    raise UsageError(f"{self.name} stands in the command without a value")
                argv[i + 1] = _spelled(value, argv[i + 1])
                return change.with_argv(tuple(argv))
            if argument.startswith(self.name + "="):
                argv[i] = f"{self.name}={_spelled(value, argument.partition('=')[2])}"
                return change.with_argv(tuple(argv))
        script = shell_script(change.command)
        if script is not None:
            text = change.text(script)
            if match := self._in(text):
                return change.with_file(script, text[: match.start(2)] + str(value) + text[match.end(2) :])
            if not _passes_on(text):
                raise UsageError(
                    f"{self.name} is not in {script.name}, and the script does not pass its arguments on",
                    hint=f"add {self.name} to the python line of {script.name}, with the value it has today",
                )
        return change.with_argv((*argv, self.name, str(value)))

    def _in(self, text: str) -> re.Match[str] | None:
        return re.search(
            rf"(?<![\w-])({re.escape(self.name)}(?:[ \t]+|=))(\"[^\"]*\"|'[^']*'|[^\s\\;|&]+)", text
        )


@dataclass(frozen=True)
class Switch(Binding):
    """`--compile`, which is there or not; `--no-compile` where the parser knows that."""

    name: str
    negated: str | None = None

    def __str__(self) -> str:
        return self.name

    def now(self, change: Change) -> object:
        """As given on the command line."""
        return self.name in change.command.argv

    def apply(self, change: Change, value: object) -> Change:
        """Put it there, or take it away."""
        if shell_script(change.command) is not None:
            raise UsageError(
                f"{self.name} is a switch, and the command is a shell script: set it there yourself"
            )
        argv = [a for a in change.command.argv if a not in (self.name, self.negated)]
        if value:
            argv.append(self.name)
        elif self.negated:
            argv.append(self.negated)
        return change.with_argv(tuple(argv))


@dataclass(frozen=True)
class Override(Binding):
    """`trainer.batch_size=8` on the command line; `+trainer.fused=true` for what hydra's config does not have yet."""

    key: str

    def __str__(self) -> str:
        return self.key + "="

    def now(self, change: Change) -> object:
        """As given on the command line."""
        for argument in change.command.argv:
            if argument.lstrip("+").startswith(self.key.lstrip("+") + "="):
                return value_of(argument.partition("=")[2])
        return None

    def apply(self, change: Change, value: object) -> Change:
        """Replace the override, or add it."""
        argv = list(change.command.argv)
        for i, argument in enumerate(argv):
            if argument.lstrip("+").startswith(self.key.lstrip("+") + "="):
                name, _, old = argument.partition("=")
                argv[i] = f"{name}={_spelled(value, old)}"
                return change.with_argv(tuple(argv))
        script = shell_script(change.command)
        if script is not None and not _passes_on(change.text(script)):
            raise UsageError(f"{script.name} does not pass its arguments on, {self.key}= among them")
        return change.with_argv((*argv, f"{self.key}={value}"))


@dataclass(frozen=True)
class FileKey(Binding):
    """A key of a config file."""

    path: Path
    key: str

    def __str__(self) -> str:
        return f"{self.path.name}:{self.key}"

    def _entry(self, change: Change) -> config_file.Entry | None:
        found = config_file.entries(self.path, change.text(self.path))
        return next((e for e in found if e.key == self.key), None)

    def now(self, change: Change) -> object:
        """As the file says."""
        entry = self._entry(change)
        return entry.value if entry else None

    def apply(self, change: Change, value: object) -> Change:
        """The file with this value changed."""
        entry = self._entry(change)
        if entry is None:
            raise UsageError(f"{self.path.name} has no key {self.key!r}")
        return change.with_file(self.path, config_file.with_value(change.text(self.path), entry, value))


@dataclass(frozen=True)
class InCode(Binding):
    """A literal in a Python file, by name and how many of that name come before it."""

    path: Path
    name: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.path.name}:{self.name}"

    def site(self, change: Change) -> code.Site:
        """Where it stands now."""
        found = [s for s in code.sites(change.text(self.path)) if s.name == self.name]
        if len(found) <= self.number:
            raise UsageError(f"{self.path.name} has no value called {self.name!r}")
        return found[self.number]

    def now(self, change: Change) -> object:
        """As the code says."""
        return self.site(change).value

    def apply(self, change: Change, value: object) -> Change:
        """The file with this literal changed."""
        text = change.text(self.path)
        return change.with_file(self.path, code.with_value(text, self.site(change), value))


@dataclass(frozen=True)
class InCall(Binding):
    """A keyword argument of a call in a Python file; the call need not have it yet."""

    path: Path
    callee: str
    argument: str
    number: int = 0
    """How many calls of the same thing come before it."""

    def __str__(self) -> str:
        return f"{self.path.name}:{self.callee}({self.argument})"

    def _call(self, change: Change) -> calls.Call:
        found = [c for c in calls.calls(change.text(self.path)) if c.callee == self.callee]
        if len(found) <= self.number:
            raise UsageError(f"{self.path.name} does not call {self.callee}")
        return found[self.number]

    def now(self, change: Change) -> object:
        """As written there; None where it is left to its default, or is no literal."""
        value = self._call(change).keywords.get(self.argument, (code.NOTHING,))[0]
        return None if value is code.NOTHING else value

    def apply(self, change: Change, value: object) -> Change:
        """The file with this argument set."""
        text = calls.with_argument(change.text(self.path), self._call(change), self.argument, value)
        if text is None:
            raise UsageError(
                f"{self.argument}={value!r} cannot be put into {self.callee}(…) in {self.path.name}"
            )
        return change.with_file(self.path, text)


@dataclass(frozen=True)
class Variable(Binding):
    """A variable of the environment."""

    name: str

    def __str__(self) -> str:
        return "$" + self.name

    def now(self, change: Change) -> object:
        """As set for this run only; the user's own environment is not asked."""
        return change.environment.get(self.name)

    def apply(self, change: Change, value: object) -> Change:
        """Set it for the run."""
        return change.with_variable(self.name, str(value))


@dataclass(frozen=True)
class Lever(Binding):
    """No place of the user's: the agent does it inside the run, and `upshift run --tuned` carries it."""

    name: str

    def __str__(self) -> str:
        return "upshift run --tuned"

    def now(self, change: Change) -> object:
        """As pulled for this run."""
        return change.levers.get(self.name)

    def apply(self, change: Change, value: object) -> Change:
        """Pull it."""
        return change.with_lever(self.name, value)


def config_files(command: Command) -> Iterator[Path]:
    """Config files that the command names."""
    for argument in command.argv[1:]:
        path = command.cwd / argument.rpartition("=")[2]
        if path.suffix in config_file.SUFFIXES and path.is_file():
            yield path.resolve()


def shell_script(command: Command) -> Path | None:
    """The shell script that the command runs, if it runs one."""
    script = command.script
    return script.resolve() if script is not None and script.suffix in _SHELL else None


def _passes_on(script: str) -> bool:
    return bool(re.search(r"\$[@*]|\$\{@", script))


def value_of(text: str) -> object:
    """What is meant by a value as it is typed."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return shlex.split(text)[0] if text[:1] in "\"'" and text else text


def _spelled(value: object, old: str) -> str:
    """As the user would have typed it: true where they wrote false."""
    return str(value).lower() if isinstance(value, bool) and old == old.lower() else str(value)
