"""Waiting for an import changes nothing about it."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

import pytest

from upshift.inject.upshift_agent.arrival import on_failure, when_imported


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = "upshift_test_package"
    (tmp_path / f"{name}.py").write_text("VALUE = 1\n\ndef f():\n    return VALUE\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


def test_called_after_the_module_ran(package: str) -> None:
    seen = []
    when_imported(package, lambda module: seen.append(module.VALUE))
    assert not seen
    module = importlib.import_module(package)
    assert seen == [1]
    assert inspect.getsource(module.f).startswith("def f")
    assert "exec_module" not in vars(module.__spec__.loader)


def test_called_at_once_when_already_imported(package: str) -> None:
    importlib.import_module(package)
    seen = []
    when_imported(package, seen.append)
    assert len(seen) == 1


def test_called_once_even_after_a_reload(package: str) -> None:
    seen = []
    when_imported(package, seen.append)
    importlib.reload(importlib.import_module(package))
    assert len(seen) == 1


def test_a_module_that_does_not_exist_stays_missing() -> None:
    when_imported("upshift_no_such_module", lambda _: None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("upshift_no_such_module")


def test_a_failing_callback_stays_out_of_the_import(package: str) -> None:
    failures = []
    on_failure(lambda name, error: failures.append((name, repr(error))))
    try:
        when_imported(package, lambda module: module.no_such_thing)
        assert importlib.import_module(package).VALUE == 1
    finally:
        on_failure(None)
    assert failures[0][0] == package and "no_such_thing" in failures[0][1]
