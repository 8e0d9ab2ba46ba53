"""Import weight is part of the promise: the agent is stdlib only, `upshift --help` pulls in nothing heavy."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import upshift

PACKAGE = Path(upshift.__file__).parent

CLI_MAY_IMPORT = {
    "upshift",
    "upshift.errors",
    *("upshift.cli" + part for part in ("", ".arguments", ".output", ".profile", ".run", ".verify", ".tune")),
}


def modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_help_imports_nothing_heavy() -> None:
    code = "import upshift.cli\ntry: upshift.cli.main(['--help'])\nexcept SystemExit: pass"
    bare = modules_after("pass")
    added = {m for m in modules_after(code) - bare if m.partition(".")[0] not in sys.stdlib_module_names}
    assert {
        m for m in added if not m.isupper() and m in sys.modules or m.startswith("upshift")
    } <= CLI_MAY_IMPORT
    assert not added & {"rich", "psutil", "torch", "numpy", "yaml"}


def imported_by(path: Path) -> set[str]:
    """Top-level names of absolute imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name.partition(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_agent_and_keeper_import_only_the_standard_library() -> None:
    for folder in (PACKAGE / "inject", PACKAGE / "keeper"):
        own = {p.stem for p in folder.glob("*.py")}
        for path in folder.rglob("*.py"):
            foreign = imported_by(path) - sys.stdlib_module_names - own
            if {"probes", "experiments", "levers"} & set(path.parts):
                foreign -= {"torch"}  # already imported by the user when these run
            assert not foreign, f"{path}: {foreign}"


def test_arming_imports_little(tmp_path: Path) -> None:
    """Every Python process of the command pays this."""
    session = tmp_path / "session.json"
    session.write_text(f'{{"events": "{tmp_path}"}}')
    code = (
        f"import os, sys; os.environ['UPSHIFT_SESSION'] = {str(session)!r}\n"
        f"sys.path.insert(0, {str(PACKAGE / 'inject')!r})\n"
        "sys.modules.pop('sitecustomize', None); import sitecustomize"
    )
    added = modules_after(code) - modules_after("pass")
    heavy = {"logging", "torch", "subprocess", "asyncio", "inspect", "typing", "tempfile", "random"}
    assert "upshift_agent.recorder" in added
    assert not added & heavy


def test_public_surface() -> None:
    from upshift import errors

    assert upshift.__all__ == ["__version__"]
    defined = {n for n, v in vars(errors).items() if isinstance(v, type) and v.__module__ == errors.__name__}
    assert set(errors.__all__) == defined


def test_environment_is_read_in_one_place() -> None:
    readers = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "os.environ" in path.read_text() and not {"inject", "examples"} & set(path.parts)
    }
    assert readers <= {"config.py", "isolation.py"}
