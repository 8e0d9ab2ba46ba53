"""Trainers with a planted truth about sameness: what is asked of each, and what the answer must be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs" / "verify"
HALVED = "halved"
"""The usual question: half the micro-batch, twice the accumulation."""


@dataclass(frozen=True, kw_only=True)
class Trap:
    """One question and its answer."""

    name: str
    program: str
    arguments: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    """--set and --bind options."""
    against: tuple[str, ...] | None = None
    """Further arguments of the other command, instead of settings."""
    kind: str
    """Of the verdict."""
    cause: str | None = None
    says: str = ""
    """Words the reasons must hold."""
    today: str | None = None
    """Words that the remark on today's run must hold; "" for: no remark; None: not looked at."""
    ranks: int = 1
    steps: int = 6

    def command(self, python: str) -> list[str]:
        """What the user types."""
        script = [str(PROGRAMS / self.program), *self.arguments]
        if self.ranks > 1:
            return [python, "-m", "torch.distributed.run", f"--nproc_per_node={self.ranks}", *script]
        return [python, *script]


def _tokens(mode: str, kind: str, cause: str | None = None, **more: object) -> Trap:
    return Trap(
        name=f"tokens-{mode}",
        program="tokens.py",
        arguments=(mode,),
        sets=("--set", "micro_batch=4", "--set", "grad_accum=4"),
        kind=kind,
        cause=cause,
        **more,  # type: ignore[arg-type]
    )


def _images(mode: str, kind: str, cause: str | None = None, **more: object) -> Trap:
    return Trap(
        name=f"images-{mode}",
        program="images.py",
        arguments=(mode,),
        sets=("--set", "micro_batch=2", "--set", "grad_accum=8"),
        kind=kind,
        cause=cause,
        **more,  # type: ignore[arg-type]
    )


def _batchwise(mode: str, kind: str, cause: str | None = None) -> Trap:
    binds = ("--bind", "micro_batch=batchwise.yaml:training.batch_size")
    binds += ("--bind", "grad_accum=batchwise.yaml:training.accumulation")
    return Trap(
        name=f"batchwise-{mode}",
        program="batchwise.py",
        arguments=(mode,),
        sets=("--set", "micro_batch=8", "--set", "grad_accum=2", *binds),
        kind=kind,
        cause=cause,
    )


def _dropout(mode: str) -> Trap:
    return Trap(
        name=f"dropout-{mode}",
        program="dropouts.py",
        arguments=(mode,),
        sets=("--set", "micro_batch=8", "--set", "grad_accum=2"),
        kind="same",
    )


def _against(flag: str, kind: str, cause: str | None = None, **more: object) -> Trap:
    return Trap(
        name=f"against-{flag.strip('-').split()[0]}",
        program="implementations.py",
        against=tuple(flag.split()),
        kind=kind,
        cause=cause,
        **more,  # type: ignore[arg-type]
    )


def _trainer(mode: str, kind: str, cause: str | None = None, **more: object) -> Trap:
    return Trap(
        name=f"trainer-{mode}",
        program="trainer.py",
        arguments=(mode,),
        sets=("--set", "micro_batch=1", "--set", "grad_accum=8"),
        kind=kind,
        cause=cause,
        **more,  # type: ignore[arg-type]
    )


def _ranks(mode: str, kind: str, cause: str | None = None) -> Trap:
    binds = ("--bind", "micro_batch=--batch_size", "--bind", "grad_accum=--accumulate")
    return Trap(
        name=f"ranks-{mode}",
        program="ranks.py",
        arguments=(mode,),
        sets=("--set", "micro_batch=4", "--set", "grad_accum=2", *binds),
        kind=kind,
        cause=cause,
        ranks=2,
    )


TRAPS = (
    _tokens("mean", "different", "mean of means", says="labels", today="mean of micro-batch means"),
    _tokens("normalised", "same", today=""),
    _tokens("undivided", "different", "loss scale", says="not divided", today="not divided"),
    _tokens("twice", "different", "loss scale", says="twice", today="twice"),
    _tokens("clip_each", "different", "clipping", says="every micro-batch", today="every micro-batch"),
    _tokens("clip_once", "same", today=""),
    _tokens("schedule_each", "different", "schedule", says="every micro-batch", today="every micro-batch"),
    _tokens("schedule_once", "same", today=""),
    _tokens("smoothing", "same", today=""),
    _tokens("noise", "same", today=""),
    Trap(
        name="tokens-partial",
        program="tokens.py",
        arguments=("partial",),
        sets=("--set", "micro_batch=16", "--set", "grad_accum=1"),
        kind="different",
        cause="partial window",
        says="partial",
    ),
    _tokens("unseeded", "same"),
    _tokens("restless", "unknown", "non-determinism", says="differs from itself"),
    Trap(
        name="tokens-detached",
        program="tokens.py",
        arguments=("normalised",),
        against=("--broken",),
        kind="different",
        cause="tensors",
        says="first",
    ),
    _images("batch_norm", "different", "BatchNorm"),
    _images("frozen", "same"),
    _images("group_norm", "same"),
    _images("dropout", "same"),
    _images("drop_path", "same"),
    _images("numpy", "same"),
    _images("random", "same"),
    _images("torch", "same"),
    _images("shuffled", "same", steps=10),
    _batchwise("contrastive", "different", "in-batch negatives"),
    _batchwise("balanced", "different", "coupled"),
    _batchwise("apart", "same"),
    _dropout("lstm"),
    _dropout("attention"),
    _dropout("lora"),
    _against("--checkpoint", "same"),
    _against("--compile", "same"),
    _against("--whole", "same"),
    _against("--sdpa", "same"),
    _against("--fused", "same"),
    _against("--bf16", "within_noise", "precision", says="ρ"),
    _against("--inside", "within_noise", "precision", says="ρ"),
    _against("--lr 0.002", "different", "schedule"),
    _trainer("with_kwargs", "same", today=""),
    _trainer("without", "different", "mean of means", says="num_items_in_batch", today="num_items_in_batch"),
    _trainer(
        "ignores",
        "different",
        "loss scale",
        says="model_accepts_loss_kwargs",
        today="model_accepts_loss_kwargs",
    ),
    _ranks("mean", "different", "mean of means"),
    _ranks("normalised", "same"),
)
