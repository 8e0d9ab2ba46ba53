"""What is different in one run: the command line, files, variables, levers. The originals stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from upshift.command import Command, understand


@dataclass(frozen=True, kw_only=True)
class Change:
    """A command with some of its settings turned; what a trial runs and what is written out in the end."""

    command: Command
    files: Mapping[Path, str] = field(default_factory=dict)
    """New content by file."""
    environment: Mapping[str, str] = field(default_factory=dict)
    levers: Mapping[str, object] = field(default_factory=dict)
    """What the agent changes inside the run, for settings that have no place in the user's command or code."""

    def with_argv(self, argv: tuple[str, ...]) -> Change:
        """The same with another command line."""
        return replace(self, command=understand(argv, self.command.cwd))

    def with_file(self, path: Path, text: str) -> Change:
        """The same with another content of one file."""
        return replace(self, files={**self.files, path: text})

    def with_variable(self, name: str, value: str) -> Change:
        """The same with a variable set."""
        return replace(self, environment={**self.environment, name: value})

    def with_lever(self, name: str, value: object) -> Change:
        """The same with a lever of the agent's pulled."""
        return replace(self, levers={**self.levers, name: value})

    def text(self, path: Path) -> str:
        """Content of a file, as changed so far."""
        return self.files[path] if path in self.files else exact_text(path)


def exact_text(path: Path) -> str:
    """With the line ends it has: what is written back must differ in the values alone."""
    return path.read_bytes().decode("utf-8")
