"""No process is left behind, not even one that was born while the others were being killed."""

from __future__ import annotations

import importlib.util
import os
import signal

from upshift.rundir import KEEPER

spec = importlib.util.spec_from_file_location("tree", KEEPER / "tree.py")
assert spec is not None and spec.loader is not None
tree = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tree)


def test_an_empty_list_is_no_proof(monkeypatch) -> None:
    """The first list misses the late child, as a listing of /proc can; the kernel still knows it."""
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    lists = iter([[], [child]])
    monkeypatch.setattr(tree, "descendants", lambda _: next(lists, []))
    gone: list[int] = []

    def reap() -> bool:
        if child not in gone and os.waitpid(child, os.WNOHANG)[0] == child:
            gone.append(child)
        return child in gone

    tree.kill_all(os.getpid(), reap)
    assert gone == [child]
