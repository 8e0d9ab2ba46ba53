"""How the process is set up, read once it trains and now and then after: threads, dtypes, DDP, torch.compile."""

from __future__ import annotations

import sys


def install(torch, recorder) -> None:
    """Look when events are sent anyway."""
    recorder.on_send.append(recorder.fail_open("facts", _Facts(torch, recorder).look))


class _Facts:
    def __init__(self, torch, recorder) -> None:
        self.torch = torch
        self.recorder = recorder
        self._sent: dict = {}
        self._compiled: tuple = ()

    def look(self) -> None:
        """Send what has changed since the last look."""
        recorder = self.recorder
        if recorder.optimizer_steps < 2:
            return
        facts = {
            "threads": self.torch.get_num_threads(),
            "matmul_precision": self.torch.get_float32_matmul_precision(),
        }
        if facts != self._sent:
            self._sent = facts
            recorder.emitter.emit("facts", **facts)
        self._look_at_compile()

    def _look_at_compile(self) -> None:
        utils = sys.modules.get("torch._dynamo.utils")
        counters = getattr(utils, "counters", None)
        if not counters:
            return
        graphs = int(counters["stats"].get("unique_graphs", 0))
        breaks = sum(counters["graph_break"].values())
        if (graphs, breaks) == self._compiled:
            return
        self._compiled = (graphs, breaks)
        times = getattr(utils, "compilation_time_metrics", {})
        spent = sum(times.get("_compile.compile_inner", ())) or sum(times.get("entire_frame_compile", ()))
        reasons = sorted(counters["graph_break"].items(), key=lambda item: -item[1])[:3]
        self.recorder.emitter.emit(
            "compiled",
            graphs=graphs,
            breaks=breaks,
            seconds=spent,
            steps=self.recorder.optimizer_steps,
            reasons=[str(reason).strip().split("\n")[0][:160] for reason, _ in reasons],
        )
