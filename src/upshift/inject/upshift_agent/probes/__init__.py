"""Probes: the only place where torch's insides are touched, and only to read. Each fails open."""

from __future__ import annotations

from . import backward, cuda, facts, fetch, loader, manual, modules, optimizer, sync, timed


def install(torch, recorder) -> None:
    """Install every probe; one that cannot be installed is reported and the rest go on."""
    for probe in (optimizer, backward, modules, loader, fetch, manual, timed, cuda, sync, facts):
        try:
            probe.install(torch, recorder)
        except Exception as error:
            recorder.emitter.emit("probe_failed", probe=probe.__name__.rpartition(".")[2], error=repr(error))
