"""Why a launch gave nothing to work with: the error that says what was seen and what to do."""

from __future__ import annotations

from upshift.errors import (
    AgentHidden,
    Interrupted,
    MachineProblem,
    NoStep,
    NoTorch,
    ProgramFailed,
    TorchTooOld,
    UpshiftError,
)
from upshift.measure.profile import training
from upshift.report import units
from upshift.session import Outcome


def failed(outcome: Outcome) -> bool:
    """Did the program end with an error of its own?"""
    return outcome.ended_by == "program" and outcome.exit_code not in (0, None)


def why_nothing(outcome: Outcome, *, first_step_seconds: float, steps: int) -> UpshiftError | None:
    """None if the program trained and ended well: then it is the caller's to say what is missing."""
    if outcome.ended_by == "interrupt":
        return Interrupted("stopped before enough was measured; nothing is left running")
    if outcome.disk_full:
        return MachineProblem(
            "the disk with upshift's scratch folder is full",
            hint="free some space, or set UPSHIFT_SCRATCH to a folder on another disk",
        )
    if failed(outcome):
        code = outcome.exit_code or 0
        how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
        when = f"after {steps} steps" if steps else "before its first step"
        return ProgramFailed(
            f"your program {how} {when}; the output above is its own",
            program_exit_code=code,
            output=outcome.stderr or outcome.stdout,
            hint="run it without upshift to see the same, then try again",
        )
    if not outcome.processes:
        return AgentHidden(
            "no Python process of the command let the agent in",
            hint=(
                "the command may start no Python, clear its environment (env -i, sudo, ssh, a container), "
                "or run python -I/-S where upshift cannot plant its .pth file"
            ),
        )
    old = next((p.too_old for p in outcome.processes if p.too_old), None)
    if old is not None:
        return TorchTooOld(
            f"the program's torch is {old['version']}; upshift needs {old['oldest']} or newer",
            hint="upgrade torch in the program's environment",
        )
    ran = f"{units.seconds(outcome.seconds)}, {len(outcome.processes)} Python process(es)"
    if not any(p.torch for p in outcome.processes):
        return NoTorch(
            f"the command ran ({ran}) and no process imported torch",
            hint="give the command that trains; if it only prepares data, profile the next one",
        )
    if training(outcome.processes) is None:
        return NoStep(
            f"torch was imported, but no backward and no optimizer step came ({ran})",
            hint=f"if start-up takes longer, raise --first-step-timeout (now {first_step_seconds:g} s)",
        )
    return None
