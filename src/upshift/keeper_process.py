"""The keeper as upshift sees it: a child process and two pipes. Its own side is the folder `keeper/`."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from upshift import config
from upshift.command import Command
from upshift.errors import MachineProblem, UsageError
from upshift.isolation import Isolation
from upshift.rundir import INJECT, KEEPER, RunDir, write_json


class Refused(Exception):
    """The keeper could not lay the overlay on this machine."""


class KeeperProcess:
    """The keeper process and the two pipes to it."""

    def __init__(
        self,
        command: Command,
        run: RunDir,
        kind: str,
        plan: Isolation | None,
        *,
        probe: bool,
        asked: Mapping[str, Any],
        environment: Mapping[str, str],
        memory_bytes: int | None = None,
    ) -> None:
        self.gone = False
        self.exit_code: int | None = None
        self._buffer = b""
        control_r, self._control = os.pipe()
        self._status, status_w = os.pipe()
        spec: dict[str, Any] = {
            "control_fd": control_r,
            "status_fd": status_w,
            "argv": list(command.argv),
            "env": {
                **config.child_environment(INJECT, run.session_file, probe=probe),
                **environment,
            },
            "cwd": str(command.cwd),
            "stdout": str(run.stdout),
            "stderr": str(run.stderr),
            "scratch": str(run.root),
            "overlay": None,
            "memory": memory_bytes,
        }
        session: dict[str, Any] = {"events": str(run.events), **asked}
        if probe and not asked.get("witness"):  # the run is thrown away: its end may be used for experiments
            session["experiments"] = str(run.experiments_file)
        if plan is not None:
            spec["overlay"] = {
                "roots": [str(r) for r in plan.roots],
                "required": [str(r) for r in plan.required],
                "through": [str(t) for t in plan.through],
                "files": {str(path): text for path, text in plan.planted},
                "edited": {str(path): text for path, text in plan.edited},
                "scratch": str(run.overlay),
            }
        if kind == "redirect":
            session["redirect"] = {"upper": str(run.overlay), "through": [str(run.root)]}
        self._spec, self._session, self._run = spec, session, run
        self._pass = (control_r, status_w)
        self.started = 0.0
        self.pid = 0

    def __enter__(self) -> KeeperProcess:
        try:
            write_json(self._run.keeper_spec, self._spec)
            write_json(self._run.session_file, self._session)
            self.started = time.perf_counter()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(KEEPER), str(self._run.keeper_spec)],
                pass_fds=self._pass,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise MachineProblem(f"the command could not be started: {error}") from error
        finally:
            for descriptor in self._pass:
                os.close(descriptor)
        self.pid = self._process.pid
        try:
            self._await_start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(polite=False)
        for descriptor in (self._control, self._status):
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _await_start(self) -> None:
        while True:
            for event in self.poll(1.0):
                if event["event"] == "refused":
                    if event.get("exec"):
                        raise UsageError(f"the command could not be started: {event['why']}")
                    raise Refused(event["why"])
                if event["event"] == "started":
                    return
            if self.gone:
                raise MachineProblem("the keeper process died before it started the command")

    def poll(self, timeout: float) -> list[dict[str, Any]]:
        """Wait up to `timeout` seconds for the keeper's next words."""
        if self.gone:
            return []
        ready, _, _ = select.select([self._status], [], [], timeout)
        if not ready:
            return []
        data = os.read(self._status, 65536)
        if not data:
            self.gone = True
            return []
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        events = [json.loads(line) for line in lines]
        for event in events:
            if event["event"] == "exit":
                self.exit_code = event["code"]
            elif event["event"] == "gone":
                self.gone = True
        return events

    def pause(self) -> None:
        """Put the whole tree to sleep."""
        self._order(b"p")

    def resume(self) -> None:
        """Let it go on."""
        self._order(b"c")

    def _order(self, order: bytes) -> None:
        with contextlib.suppress(OSError):  # a keeper that is gone has nothing to order
            os.write(self._control, order)

    def stop(self, *, polite: bool) -> None:
        """End the whole tree and wait until it is gone."""
        self._order(b"t" if polite else b"k")
        while not self.gone:
            self.poll(1.0)
        self._process.wait()
