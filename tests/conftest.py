"""Fixtures, and the test helpers made importable from every folder of tests."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A place for upshift's scratch outside /tmp, which a run in a test's folder covers."""
    folder = Path(tempfile.mkdtemp(prefix="upshift-test-", dir="/var/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
