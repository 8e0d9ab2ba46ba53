"""Every command that README and docs show is a command that runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from upshift_cli import upshift

from upshift.cli import _parser, _split

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def shown() -> list[str]:
    """Command lines in code blocks and code spans."""
    found = []
    for page in PAGES:
        text = page.read_text()
        found += re.findall(r"^    ((?:upshift|make) [^#\n]+)", text, re.M)
        found += re.findall(r"`((?:upshift|make) [^`]+)`", text)
    return sorted({f.strip() for f in found if "VERB" not in f})


def test_there_are_some() -> None:
    assert len(shown()) >= 5


@pytest.mark.parametrize("line", shown())
def test_shown_command_is_understood(line: str) -> None:
    words = shlex.split(line)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.M)
        return
    ours, _ = _split(words[1:])
    if ours == ["--help"] or ours[0].endswith("--"):
        return
    assert _parser().parse_args([w for w in ours if "…" not in w]).verb


def test_every_verb_said_to_work_has_help(tmp_path: Path) -> None:
    works = re.findall(r"^\| `(\w+)` \|.*\*\*works\*\* \|$", (ROOT / "README.md").read_text(), re.M)
    assert works
    for verb in works:
        run = upshift(verb, "--help", cwd=tmp_path)
        assert run.code == 0
        assert "--json" in run.stdout


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page.name}: {link}"
