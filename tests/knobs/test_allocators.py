"""Allocators: what the machine has, what the user has chosen, and what a run is started with."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from upshift.command import understand
from upshift.errors import UsageError
from upshift.knobs import allocators
from upshift.knobs.allocators import KEEPING, Allocator
from upshift.knobs.change import Change


@pytest.fixture
def now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Change:
    """A command, on a machine where tcmalloc comes with the user's environment and nothing else is known."""
    libraries = tmp_path / "lib"
    libraries.mkdir()
    (libraries / "libtcmalloc_minimal.so.4").touch()
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path))
    for name in ("GLIBC_TUNABLES", "LD_PRELOAD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(allocators, "_known_to_the_loader", list)
    allocators.installed.cache_clear()
    yield Change(command=understand([sys.executable, "-c", "pass"], tmp_path), environment={"KEEP": "1"})
    allocators.installed.cache_clear()


def test_what_comes_with_the_environment_is_found(now: Change, tmp_path: Path) -> None:
    assert allocators.installed() == {"tcmalloc": str(tmp_path / "lib" / "libtcmalloc_minimal.so.4")}


def test_one_allocator_replaces_the_other(now: Change) -> None:
    assert Allocator().now(now) is None
    kept = Allocator().apply(now, KEEPING)
    assert Allocator().now(kept) == KEEPING and set(kept.environment) == {"KEEP", "GLIBC_TUNABLES"}
    other = Allocator().apply(kept, "tcmalloc")
    assert Allocator().now(other) == "tcmalloc" and set(other.environment) == {"KEEP", "LD_PRELOAD"}


def test_what_the_user_preloads_stays(now: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/opt/trace.so")
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.cpu.x86_ibt=on")
    assert Allocator().now(now) is None, "neither is about memory"
    assert Allocator().apply(now, "tcmalloc").environment["LD_PRELOAD"].endswith(".so.4:/opt/trace.so")
    kept = Allocator().apply(now, KEEPING)
    assert kept.environment["GLIBC_TUNABLES"].startswith("glibc.cpu.x86_ibt=on:glibc.malloc")
    assert Allocator().now(kept) == KEEPING


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("LD_PRELOAD", "/opt/trace.so /usr/lib/libjemalloc.so.2", "jemalloc"),
        ("GLIBC_TUNABLES", "glibc.malloc.arena_max=1", "glibc.malloc.arena_max=1"),
    ],
)
def test_what_the_user_has_chosen_is_seen(
    now: Change, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, told: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert Allocator().now(now) == told


def test_one_that_is_not_there_is_refused(now: Change) -> None:
    with pytest.raises(UsageError, match="jemalloc") as refused:
        Allocator().apply(now, "jemalloc")
    assert refused.value.hint == "there is: glibc-keeping, tcmalloc"


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_run_is_started_with_it(now: Change, tmp_path: Path) -> None:
    """A real library, loaded by the real loader."""
    library = tmp_path / "lib" / "libtcmalloc_minimal.so.4"
    source = tmp_path / "empty.c"
    source.write_text("int upshift_was_here;\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    environment = {**os.environ, **Allocator().apply(now, "tcmalloc").environment}
    told = subprocess.run(
        [sys.executable, "-c", "print(open('/proc/self/maps').read())"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(library) in told.stdout
