"""Everything upshift says no with. Each error knows its exit code and says what, got what, do what.

UpshiftError
├── UsageError                 2  the command line or a file it names is wrong
├── ProgramFailed              1  the user's program failed; its traceback has been shown
├── NothingMeasured            3  it ran, but there was nothing to measure
│   ├── AgentHidden               no Python process in it let the agent in
│   ├── NoTorch                   no process imported torch
│   ├── TorchTooOld               torch is older than the probes need
│   ├── NoStep                    torch, but no step within the time given
│   ├── NotBound                  a setting asked for could not be found, or had no effect
│   └── LeverFailed               the run could not be steered as asked
├── MachineProblem             3  full disk, no scratch folder, a process that would not start
└── Interrupted              130  Ctrl-C or SIGTERM
"""

from __future__ import annotations

__all__ = [
    "AgentHidden",
    "Interrupted",
    "LeverFailed",
    "MachineProblem",
    "NoStep",
    "NoTorch",
    "NotBound",
    "NothingMeasured",
    "ProgramFailed",
    "TorchTooOld",
    "UpshiftError",
    "UsageError",
]


class UpshiftError(Exception):
    """Base of all. `hint` says what to do and gets a line of its own."""

    exit_code = 3

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def kind(self) -> str:
        """Name of the error in JSON."""
        return type(self).__name__


class UsageError(UpshiftError):
    """The command line, or a file it names, cannot be used."""

    exit_code = 2


class ProgramFailed(UpshiftError):
    """The user's program ended with an error before enough was measured."""

    exit_code = 1

    def __init__(self, message: str, *, program_exit_code: int, output: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.program_exit_code = program_exit_code
        self.output = output
        """The program's own words, shown whole before ours."""


class NothingMeasured(UpshiftError):
    """The program ran, but there was nothing to measure."""


class AgentHidden(NothingMeasured):
    """No Python process of the program let the agent in."""


class NoTorch(NothingMeasured):
    """No process of the program imported torch."""


class TorchTooOld(NothingMeasured):
    """The program's torch is older than the probes need."""


class NoStep(NothingMeasured):
    """torch was imported, but no step was seen in the time given."""


class NotBound(NothingMeasured):
    """Where a setting is made could not be found, or setting it there changed nothing."""


class LeverFailed(NothingMeasured):
    """A lever could not be pulled: what was to be tried was not tried."""


class MachineProblem(UpshiftError):
    """The machine, not the program: a full disk, no place for scratch, no process to be had."""


class Interrupted(UpshiftError):
    """The person, or the system, told upshift to stop."""

    exit_code = 130
