"""Where a knob is likely set, without having watched a run: from the command, its config files and its script."""

from __future__ import annotations

import re

from upshift.errors import NotBound
from upshift.knobs.binding import Binding, config_files, shell_script
from upshift.knobs.change import Change
from upshift.knobs.discover import Seen, candidates
from upshift.knobs.knob import BY_NAME


def guesses(now: Change, knob: str, value: object) -> list[Binding]:
    """Places named like the knob that hold the observed value, the likeliest first. Raises NotBound if none does."""
    found = [c.binding for c in candidates(BY_NAME[knob], value, now, _at_hand(now))]
    if not found:
        raise NotBound(
            f"nothing in the command, its config files or its script looks like {knob} = {value}",
            hint=f"say where it is set: --bind {knob}=--flag, --bind {knob}=config.yaml:key, or "
            f"--bind {knob}=train.py:NAME",
        )
    return found


def _at_hand(now: Change) -> Seen:
    """What can be read without running anything."""
    script = now.command.script
    sources = [script.resolve()] if script is not None and script.suffix == ".py" else []
    shell = shell_script(now.command)
    if shell is not None:
        for named in dict.fromkeys(re.findall(r"[\w./-]+\.py", now.text(shell))):
            path = (now.command.cwd / named).resolve()
            if path.is_file():
                sources.append(path)
    return Seen(flags={}, files=tuple(config_files(now.command)), sources=tuple(sources))
