"""What is planted in each program of tests/programs/findings, and where finding it would be wrong."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["CASES", "PROGRAMS", "Case", "command"]

PROGRAMS = Path(__file__).resolve().parent / "programs" / "findings"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One program in one mode, and what a diagnosis of it must say."""

    program: str
    mode: str = "planted"
    found: tuple[str, ...] = ()
    """Kinds that must be among the findings."""
    absent: tuple[str, ...] = ()
    """Kinds that must not: the near miss."""
    says: str | None = None
    """Words that the evidence or the fix must hold."""
    at: str | None = None
    """Text of the source line that `where` of the first kind must name, or a neighbour of it."""
    experiments: str = ""
    """Can only be known from this experiment in the run."""
    threads: bool = False
    """The program sets its own threads."""
    counted: bool = False
    """Rests on counts and flags, not on times: other tests may run beside it."""

    @property
    def name(self) -> str:
        return f"{self.program}-{self.mode}"


CASES = (
    Case(program="micro_batch", found=("micro_batch",), experiments="calls"),
    Case(program="micro_batch", mode="near", absent=("micro_batch",), experiments="calls"),
    Case(program="per_sample_calls", found=("per_sample_calls",), experiments="calls"),
    Case(program="per_sample_calls", mode="near", absent=("per_sample_calls",), experiments="calls"),
    Case(program="many_calls", found=("many_calls",)),
    Case(program="many_calls", mode="near", absent=("many_calls",)),
    Case(
        program="data_wait",
        found=("data_wait", "workers_zero"),
        says="mostly decoding",
        at="__getitem__",
        experiments="replay",
    ),
    Case(
        program="data_wait",
        mode="storage",
        found=("data_wait", "workers_zero"),
        says="mostly storage",
        at="__getitem__",
    ),
    Case(program="data_wait", mode="collate", found=("data_wait",), says="mostly collation"),
    Case(program="data_wait", mode="near", absent=("data_wait", "workers_zero", "workers_few")),
    Case(program="workers_few", found=("workers_few",)),
    Case(program="workers_few", mode="near", absent=("workers_few", "data_wait")),
    Case(program="workers_restarted", found=("workers_restarted",)),
    Case(program="workers_restarted", mode="near", absent=("workers_restarted",)),
    Case(program="workers_many", found=("workers_many",)),
    Case(program="workers_many", mode="near", absent=("workers_many",)),
    Case(program="checkpointing", found=("checkpointing",)),
    Case(program="checkpointing", mode="near", absent=("checkpointing",)),
    Case(program="precision_bf16", found=("precision_slow",), experiments="calls"),
    Case(
        program="precision_bf16",
        mode="near",
        absent=("precision_slow", "precision_high"),
        experiments="calls",
    ),
    Case(program="precision_fp64", found=("precision_high",), experiments="calls"),
    Case(
        program="precision_fp64",
        mode="near",
        absent=("precision_slow", "precision_high"),
        experiments="calls",
    ),
    Case(program="padding", found=("padding",)),
    Case(program="padding", mode="near", absent=("padding", "sequence_limit"), counted=True),
    Case(program="sequence_limit", found=("sequence_limit",)),
    Case(program="sequence_limit", mode="near", absent=("sequence_limit", "padding"), counted=True),
    Case(program="frozen", found=("frozen",)),
    Case(program="frozen", mode="near", absent=("frozen",), counted=True),
    Case(program="frozen", mode="near2", absent=("frozen",), counted=True),
    Case(program="evaluation", found=("evaluation",)),
    Case(program="evaluation", mode="near", absent=("evaluation",)),
    Case(program="saving", found=("saving",)),
    Case(program="saving", mode="near", absent=("saving",)),
    Case(program="logging_prints", found=("logging",)),
    Case(program="logging_prints", mode="near", absent=("logging",)),
    Case(program="optimizer", found=("optimizer",), says="fused=True", experiments="optimizer"),
    Case(program="optimizer", mode="near", absent=("optimizer",), experiments="optimizer"),
    Case(program="threads_many", found=("threads_many",), experiments="calls", threads=True),
    Case(program="threads_many", mode="near", absent=("threads_many",), experiments="calls", threads=True),
    Case(program="threads_few", found=("threads_few",), experiments="calls", threads=True),
    Case(program="threads_few", mode="near", absent=("threads_few",), experiments="calls", threads=True),
    Case(program="page_faults", found=("page_faults",)),
    Case(program="page_faults", mode="near", absent=("page_faults",)),
    Case(program="recompiles", found=("recompiles",)),
    Case(program="recompiles", mode="near", absent=("recompiles", "graph_breaks"), counted=True),
    Case(program="graph_breaks", found=("graph_breaks",)),
    Case(program="graph_breaks", mode="near", absent=("graph_breaks", "recompiles"), counted=True),
    Case(program="no_sync", found=("no_sync",), experiments="calls"),
    Case(program="no_sync", mode="near", absent=("no_sync",), counted=True),
    Case(program="no_sync", mode="fixed", absent=("no_sync",), counted=True),
    Case(program="unbalanced_ranks", found=("unbalanced_ranks",)),
    Case(program="unbalanced_ranks", mode="near", absent=("unbalanced_ranks",)),
    Case(program="mps_fallback", found=("mps_fallback",), counted=True),
    Case(program="mps_fallback", mode="near", absent=("mps_fallback",), counted=True),
)


def command(case: Case, python: str) -> list[str]:
    """What the user would type."""
    return [python, str(PROGRAMS / f"{case.program}.py"), case.mode]
