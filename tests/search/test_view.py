"""What is shown while a tuning goes on."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console
from search.world import World

from upshift.report.tune_live import TuneView
from upshift.search.bench import Bench, Request


def bench(world: World, view: TuneView) -> Bench:
    return Bench(Request(now=world.now), world.ways(tell=view.tell, attach=view.attach))


def test_the_table_fills_while_it_works(tmp_path: Path) -> None:
    world = World(folder=tmp_path)
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with TuneView(console) as view:
        book = bench(world, view)
        book.look(world.now)
        book.attempt(world.now, {"micro_batch": 2})
        shown = Console(file=io.StringIO(), width=80, record=True)
        shown.print(view)
    text = shown.export_text()
    assert "as it is" in text and "micro_batch 2" in text
    assert "best so far 1.00×" in text and "left" in text


def test_plain_lines_without_a_terminal(tmp_path: Path) -> None:
    world = World(folder=tmp_path)
    out = io.StringIO()
    with TuneView(Console(file=out, width=80)) as view:
        bench(world, view).attempt(world.now, {"micro_batch": 2})
    assert out.getvalue().startswith("micro_batch 2: ")
