"""A run that is ended by SIGKILL cannot tidy up: what it would have deleted itself is gone all the same."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from upshift_cli import profile

from upshift.rundir import KEEPER

_MAKES = """
import os, socket, sys, time
folder = sys.argv[1]
os.mkdir(folder)
listener = socket.socket(socket.AF_UNIX)
listener.bind(folder + "/listener-1")
listener.listen()
open("/dev/shm/torch_%d_1_2" % os.getpid(), "w").close()
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no shared memory to be found by name")
def test_sockets_and_shared_memory_of_the_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(KEEPER))
    import leftovers

    others = tmp_path / "pymp-another"
    others.mkdir()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(others / "listener-1"))
        other.listen()
        own = tmp_path / "pymp-own"
        killed = subprocess.Popen([sys.executable, "-c", _MAKES, str(own)], stdout=subprocess.PIPE)
        assert killed.stdout is not None and killed.stdout.readline() == b"ready\n"
        segment = Path(f"/dev/shm/torch_{killed.pid}_1_2")
        paths = leftovers.owned_by([killed.pid])
        assert sorted(paths) == sorted([str(own), str(segment)])
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        leftovers.remove(paths)
        assert not own.exists() and not segment.exists()
        assert (others / "listener-1").exists(), "not ours"


def test_workers_of_a_probe_leave_nothing_in_the_temporary_folder(tmp_path: Path, scratch: Path) -> None:
    program = Path(__file__).resolve().parents[1] / "programs" / "workers_fork.py"
    run = profile([sys.executable, str(program)], "--steps", "5", cwd=tmp_path, TMPDIR=str(scratch))
    assert run.code == 0, run.stderr
    assert not list(scratch.glob("pymp-*"))
