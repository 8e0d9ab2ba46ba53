"""The agent: reads a training run from inside; changes only what a lever is asked to. Stdlib only."""

from __future__ import annotations

import atexit
import json
import os
import time

from .arrival import on_failure, when_imported
from .emitter import Emitter
from .recorder import Recorder
from .role import rank_and_world
from .sampler import Sampler

OLDEST_TORCH = (2, 0)


def arm(session_file: str) -> None:
    """Say hello and wait for torch. Called once per interpreter, by sitecustomize."""
    with open(session_file, encoding="utf-8") as stream:
        session = json.load(stream)
    if "events" not in session:  # a real run (`upshift run --tuned`): what was found to pay, and nothing else
        from . import levers

        when_imported("torch", lambda torch: levers.install(torch, None, session["levers"]))
        return
    agent = Agent(session)
    agent.emitter.hello()
    on_failure(agent.import_failed)
    if session.get("redirect"):
        from . import redirect

        redirect.install(session["redirect"])
    if session.get("discover"):
        from .settings import Settings

        agent.settings = Settings(agent.emitter)
        agent.settings.listen()
    if session.get("levers"):
        from . import levers

        levers.before_torch(session["levers"])
    when_imported("torch", agent.torch_arrived)
    atexit.register(agent.leave, "exit")
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=agent.after_fork)


class Agent:
    """One interpreter's agent: the emitter, the recorder and what keeps them in step with the process."""

    def __init__(self, session: dict) -> None:
        self.session = session
        self.emitter = Emitter(session["events"])
        self.recorder = Recorder(self.emitter)
        self.recorder.on_active.append(self.became_active)
        self.torch = None
        self.settings = None
        """Where the run's settings come from (settings.Settings), while that is asked for."""
        self.forked = False

    def torch_arrived(self, torch) -> None:
        """The user's `import torch` has finished."""
        begun = time.perf_counter()
        self.torch = torch
        version = str(getattr(torch, "__version__", "unknown"))
        self.emitter.emit("torch", version=version)
        if _parsed(version) < OLDEST_TORCH:
            self.emitter.emit("too_old", version=version, oldest="%d.%d" % OLDEST_TORCH)
            self.emitter.flush()
            return
        from . import probes

        if self.session.get("levers"):
            from . import levers

            levers.install(torch, self.recorder, self.session["levers"])
        probes.install(torch, self.recorder)
        if self.session.get("witness"):
            from .probes import witness

            witness.install(torch, self.recorder, self.session["witness"])
        if self.session.get("turns"):
            from .turns import Turns

            self.recorder.turns = Turns(self.recorder, self.session["turns"])
        if self.session.get("trace"):
            from .trace import Trace

            Trace(self.recorder)
        if self.session.get("experiments"):
            from .experiments import Experiments

            Experiments(torch, self.recorder, self.session["experiments"])
        self._wrap_os_exit()
        self.emitter.emit("armed", seconds=time.perf_counter() - begun)
        self.emitter.flush()

    def import_failed(self, name: str, error: Exception) -> None:
        """What was to be put in place after an import could not be."""
        self.emitter.emit("probe_failed", probe="import of " + name, error=repr(error))
        self.emitter.flush()

    def became_active(self) -> None:
        """First backward or optimizer step of this process."""
        rank, world = rank_and_world(self.torch)
        if self.settings is not None:
            self.settings.send()
        self.emitter.emit("active", rank=rank, world_size=world, torch=str(self.torch.__version__))
        self.emitter.flush()
        # Where the time goes is not asked of a run that is only being compared.
        looks = not (self.session.get("witness") or self.session.get("turns"))
        self.recorder.sampler = Sampler(self.recorder, self.session.get("keeper_pid", 0), looks)
        self.recorder.sampler.start()

    def after_fork(self) -> None:
        """Forked children start anew and dormant; they get a file of their own if they ever train."""
        self.emitter.after_fork()
        self.recorder.after_fork()
        self.forked = True

    def leave(self, why: str) -> None:
        """The interpreter is going down. Forked loader workers never had anything to say."""
        if self.recorder.thread or not self.forked:
            self.recorder.finish(why)

    def _wrap_os_exit(self) -> None:
        """os._exit skips atexit: send what is there first."""
        original = os._exit

        def _exit(status):
            self.leave("os._exit")
            original(status)

        os._exit = _exit


def _parsed(version: str) -> tuple:
    """(major, minor) of a version string; unknown counts as new."""
    try:
        major, minor = version.split(".")[:2]
        return int(major), int("".join(c for c in minor if c.isdigit()))
    except ValueError:
        return (99, 0)
