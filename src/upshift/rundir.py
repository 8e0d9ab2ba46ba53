"""Every path of one launch. The folder lives in scratch and goes when the launch is over."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from upshift import config
from upshift.errors import MachineProblem

PACKAGE = Path(__file__).resolve().parent
INJECT = PACKAGE / "inject"
KEEPER = PACKAGE / "keeper"


class RunDir:
    """One launch's scratch folder and the names in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.events = root / "events"
        self.session_file = root / "session.json"
        self.experiments_file = root / "experiments.json"
        self.keeper_spec = root / "keeper.json"
        self.stdout = root / "stdout.log"
        self.stderr = root / "stderr.log"
        self.overlay = root / "overlay"

    @classmethod
    def create(cls, avoid: Iterable[Path] = ()) -> RunDir:
        """A fresh folder outside `avoid`: an overlay cannot keep its layers below what it covers."""
        covered = [a.resolve() for a in avoid]
        tried: list[str] = []
        for base in _bases():
            if any(base == c or c in base.parents for c in covered):
                continue
            try:
                run = cls(Path(tempfile.mkdtemp(prefix="upshift-", dir=base)).resolve())
                run.events.mkdir()
                run.overlay.mkdir()
                return run
            except OSError as error:
                tried.append(f"{base}: {error.strerror}")
        raise MachineProblem(
            "no place for upshift's scratch files: " + ("; ".join(tried) or "all are covered"),
            hint=f"free some space, or set {config.SCRATCH} to a folder outside the project",
        )

    def remove(self) -> None:
        """Delete the folder, locked folders included: the kernel leaves overlay work folders without rights."""
        shutil.rmtree(self.root, ignore_errors=True)
        if not self.root.exists():
            return
        for folder, names, _ in os.walk(self.root):
            for name in names:
                with contextlib.suppress(OSError):
                    os.chmod(os.path.join(folder, name), stat.S_IRWXU)
        shutil.rmtree(self.root, ignore_errors=True)


def write_json(path: Path, document: Any) -> None:
    """Write a JSON file whole or not at all."""
    partial = path.with_name(path.name + f".{os.getpid()}.part")
    try:
        partial.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _bases() -> list[Path]:
    asked = config.scratch_base()
    if asked is not None:
        return [asked]
    candidates = [Path(tempfile.gettempdir()), Path("/var/tmp"), Path("/dev/shm")]
    return [c.resolve() for c in candidates if c.is_dir() and os.access(c, os.W_OK)]
