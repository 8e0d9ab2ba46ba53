"""Played tunings do not hang on what the machine has."""

import pytest

from upshift.knobs import allocators


@pytest.fixture(autouse=True)
def no_other_allocators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocators, "installed", dict)
    for name in ("GLIBC_TUNABLES", "LD_PRELOAD"):
        monkeypatch.delenv(name, raising=False)
