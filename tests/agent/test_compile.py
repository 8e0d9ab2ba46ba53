"""torch.compile's graphs are what they are without us."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import upshift

PROGRAM = """
import json, sys, torch
from torch import nn
from torch._dynamo.utils import counters

graphs = []
def backend(module, _):
    graphs.append(module)
    return module.forward

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(4)])
    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x

kind = sys.argv[1]
net = Net() if kind != "sequential" else nn.Sequential(nn.Linear(8, 8), nn.ReLU())
model, optimizer = net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
step = optimizer.step
if kind in ("module", "sequential"):
    model = torch.compile(net, backend=backend)
elif kind == "in_place":
    net.compile(backend=backend)
elif kind == "function":
    model = torch.compile(lambda x: net(x) * 2, backend=backend)
elif kind == "optimizer":
    step = torch.compile(optimizer.step, backend=backend)
for i in range(8):
    if i == 5:
        with torch.no_grad():
            model.eval() if isinstance(model, nn.Module) else None
            model.train() if isinstance(model, nn.Module) else None
    model(torch.ones(4, 8)).sum().backward()
    step()
    optimizer.zero_grad()
print(json.dumps({"graphs": len(graphs), "breaks": sum(counters["graph_break"].values()),
                  "nodes": [len(g.graph.nodes) for g in graphs]}))
"""


def run(kind: str, tmp_path: Path, *, armed: bool) -> dict:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if armed:
        events = tmp_path / "events"
        events.mkdir()
        session = tmp_path / "session.json"
        session.write_text(json.dumps({"events": str(events)}))
        environment["UPSHIFT_SESSION"] = str(session)
        environment["PYTHONPATH"] = str(Path(upshift.__file__).parent / "inject")
    script = tmp_path / "compiled.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(script), kind], env=environment, capture_output=True, text=True, check=True
    )
    if armed:
        assert '"kind":"steps"' in next(events.glob("*.jsonl")).read_text()
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", ("module", "in_place", "function", "sequential", "optimizer"))
def test_graphs_stay_whole(kind: str, tmp_path: Path) -> None:
    bare = run(kind, tmp_path, armed=False)
    assert run(kind, tmp_path, armed=True) == bare
    assert bare["graphs"] >= 1
