"""What each tiny trainer under tests/programs does, as a person reads it from its source.

A program is listed with the command that starts it and with what a profile of it must find.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["FAULTS", "MARKER", "PROGRAMS", "TRUTHS", "Fault", "Truth", "marked_line"]

PROGRAMS = Path(__file__).resolve().parent / "programs"
MARKER = "# <- time goes here"


def marked_line(program: str) -> int:
    """Line number, counted from 1, of the one line of `program` that carries the marker."""
    lines = (PROGRAMS / program).read_text(encoding="utf-8").splitlines()
    marked = [number for number, line in enumerate(lines, start=1) if MARKER in line]
    if len(marked) != 1:
        raise ValueError(f"{program}: {len(marked)} lines marked, expected one")
    return marked[0]


def _expand(command: tuple[str, ...], python: str) -> list[str]:
    return [part.replace("{python}", python).replace("{programs}", str(PROGRAMS)) for part in command]


@dataclass(frozen=True, kw_only=True)
class Truth:
    """One program, one way to start it, and what is true of it."""

    program: str
    """Path of the file that trains, relative to tests/programs."""

    command: tuple[str, ...]
    """What the user types; `{python}` is the interpreter, `{programs}` the absolute folder."""

    in_programs: bool = False
    """Whether it only works with tests/programs as the working folder; else any folder will do."""

    micro_batch: int | None
    """Samples in one forward and backward, on one rank."""

    grad_accum: int | None
    """Micro-batches in one optimizer step."""

    world_size: int = 1
    """Ranks of the process group; 1 where there is none."""

    tokens_per_step: int | None = None
    """Token positions, padding included, in one optimizer step of one rank; None: not constant
    or not tokens."""

    padding_share: float | None = None
    """Padding positions over all positions, from 0 to 1; None: no padding to be seen."""

    padding_tolerance: float = 0.02
    """How far from `padding_share` a measurement over a few dozen steps may be."""

    phase: str | None = None
    """The phase of a step that holds most of its time; None: nothing planted."""

    phase_share: float = 0.0
    """The least share of the step, from 0 to 1, that `phase` must be given."""

    where: str | None = None
    """Function whose lines hold the time of `phase`; its line is `where_line`."""

    run_phase: str | None = None
    """A phase of the run, between steps, that must be seen: "evaluation" or "checkpoint"."""

    run_phase_share: float = 0.0
    """The least share of the run's time after its first step, from 0 to 1, in `run_phase`."""

    needs: tuple[str, ...] = ()
    """Modules beyond torch and the standard library that must be importable."""

    optimizers: int = 1
    """Optimizer objects stepped in one iteration."""

    note: str = ""
    """What makes this program hard, or the truth arguable."""

    def __post_init__(self) -> None:
        if (self.phase is None) != (self.phase_share == 0.0):
            raise ValueError(f"{self.program}: phase and phase_share go together")
        if self.run_phase not in (None, "evaluation", "checkpoint"):
            raise ValueError(f"{self.program}: unknown run phase {self.run_phase!r}")

    @property
    def where_line(self) -> int | None:
        """Line of the marker, or None where no `where` is claimed."""
        return marked_line(self.program) if self.where else None

    @property
    def effective_batch(self) -> int | None:
        """Samples in one optimizer step over all ranks."""
        if self.micro_batch is None or self.grad_accum is None:
            return None
        return self.micro_batch * self.grad_accum * self.world_size

    def argv(self, python: str) -> list[str]:
        """The command with its placeholders filled in."""
        return _expand(self.command, python)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One program that misbehaves, and how it ends when nobody interferes."""

    program: str
    """Path relative to tests/programs."""

    steps: int | None
    """Optimizer steps it makes when left alone; None: as many as it is given time for."""

    exit_code: int | None
    """Its own exit code when left alone; None: it does not end within a test's patience."""

    needs: tuple[str, ...] = ()
    """Modules beyond torch and the standard library that must be importable."""

    note: str = ""
    """What it does."""

    def argv(self, python: str) -> list[str]:
        """The command with its placeholders filled in."""
        return _expand(("{python}", "{programs}/" + self.program), python)


def _script(name: str, *arguments: str) -> tuple[str, ...]:
    return ("{python}", "{programs}/" + name, *arguments)


TRUTHS: tuple[Truth, ...] = (
    Truth(
        program="plain_loop.py",
        command=_script("plain_loop.py"),
        micro_batch=12,
        grad_accum=1,
        phase="data_wait",
        phase_share=0.6,
        where="__getitem__",
        note="real work in the dataset, no workers",
    ),
    Truth(
        program="accumulation.py",
        command=_script("accumulation.py"),
        micro_batch=6,
        grad_accum=5,
        tokens_per_step=6 * 5 * 40,
        phase="forward",
        phase_share=0.25,
    ),
    Truth(
        program="argparse_flags.py",
        command=_script("argparse_flags.py", "--batch-size", "10", "--accum", "3"),
        micro_batch=10,
        grad_accum=3,
        phase="optimizer",
        phase_share=0.45,
        note="an Optimizer subclass of the user's own; flags differ from the defaults",
    ),
    Truth(
        program="yaml_config.py",
        command=_script("yaml_config.py", "--config", "{programs}/yaml_config.yaml"),
        micro_batch=7,
        grad_accum=4,
        phase="logging",
        phase_share=0.45,
        where="emit",
        needs=("yaml",),
        note="logging handler that sleeps",
    ),
    Truth(
        program="module_constants.py",
        command=_script("module_constants.py"),
        micro_batch=14,
        grad_accum=2,
        phase="forward",
        phase_share=0.6,
        note="frozen backbone in grad mode; only the head has gradients",
    ),
    Truth(
        program="gradscaler_disabled.py",
        command=_script("gradscaler_disabled.py"),
        micro_batch=5,
        grad_accum=3,
        phase="backward",
        phase_share=0.3,
        note="one forward of batch 1 before training, to make the lazy layer",
    ),
    Truth(
        program="gradscaler_skips.py",
        command=_script("gradscaler_skips.py"),
        micro_batch=8,
        grad_accum=2,
        note="about one step in seven is skipped by the scaler: 4 backwards to one optimizer.step",
    ),
    Truth(
        program="accelerate_accumulate.py",
        command=_script("accelerate_accumulate.py"),
        micro_batch=4,
        grad_accum=6,
        needs=("accelerate",),
        note="the wrapped optimizer's step is called for each micro-batch, the inner one is not",
    ),
    Truth(
        program="accelerate_accumulate.py",
        command=(
            *("{python}", "-m", "accelerate.commands.launch", "--cpu", "--num_machines", "1"),
            *("--num_processes", "1", "--mixed_precision", "no", "--dynamo_backend", "no"),
            "{programs}/accelerate_accumulate.py",
        ),
        micro_batch=4,
        grad_accum=6,
        needs=("accelerate",),
        note="accelerate launch",
    ),
    Truth(
        program="hf_trainer.py",
        command=_script("hf_trainer.py"),
        micro_batch=3,
        grad_accum=4,
        tokens_per_step=3 * 4 * 48,
        padding_share=1 - (12 + 24 + 30) / 3 / 48,
        padding_tolerance=0.05,
        needs=("transformers", "accelerate"),
        note="attention_mask; samples are shuffled, so the padding of a step varies",
    ),
    Truth(
        program="lightning_trainer.py",
        command=_script("lightning_trainer.py"),
        micro_batch=9,
        grad_accum=2,
        needs=("lightning",),
        note="the LightningModule itself is never called: two submodules are, from training_step",
    ),
    Truth(
        program="lightning_fabric.py",
        command=_script("lightning_fabric.py"),
        micro_batch=11,
        grad_accum=3,
        needs=("lightning",),
    ),
    Truth(
        program="gan.py",
        command=_script("gan.py"),
        micro_batch=16,
        grad_accum=1,
        optimizers=2,
        note="D: two backwards and a step, G: one backward and a step; three forwards of D",
    ),
    Truth(
        program="optimizer_per_layer.py",
        command=_script("optimizer_per_layer.py"),
        micro_batch=10,
        grad_accum=2,
        tokens_per_step=10 * 2 * 24,
        optimizers=4,
        note="token 0 is a word, not padding",
    ),
    Truth(
        program="optimizer_in_backward.py",
        command=_script("optimizer_in_backward.py"),
        micro_batch=13,
        grad_accum=1,
        optimizers=6,
        note="six optimizers, each stepped from a hook while the backward runs",
    ),
    Truth(
        program="lbfgs.py",
        command=_script("lbfgs.py"),
        micro_batch=40,
        grad_accum=1,
        note="5 or 6 closures a step, each a full forward and backward of the same 40 samples; "
        "backwards a step are not accumulation",
    ),
    Truth(
        program="compiled_model.py",
        command=_script("compiled_model.py"),
        micro_batch=18,
        grad_accum=2,
        note="aot_eager; must stay one graph",
    ),
    Truth(
        program="compiled_optimizer.py",
        command=_script("compiled_optimizer.py"),
        micro_batch=9,
        grad_accum=3,
        note="optimizer.step runs inside a compiled function, where Python hooks are traced away",
    ),
    Truth(
        program="fused_optimizer.py",
        command=_script("fused_optimizer.py"),
        micro_batch=15,
        grad_accum=2,
        tokens_per_step=15 * 2 * 32,
        phase="backward",
        phase_share=0.3,
    ),
    Truth(
        program="manual_module.py",
        command=_script("manual_module.py"),
        micro_batch=22,
        grad_accum=1,
        optimizers=0,
        note="no optimizer object; gradients cleared by model.zero_grad",
    ),
    Truth(
        program="manual_tensors.py",
        command=_script("manual_tensors.py"),
        micro_batch=20,
        grad_accum=3,
        optimizers=0,
        note="no optimizer, no module, no DataLoader; the batch is only in the index tensor",
    ),
    Truth(
        program="get_batch.py",
        command=_script("get_batch.py"),
        micro_batch=5,
        grad_accum=4,
        tokens_per_step=5 * 4 * 32,
        phase="other",
        phase_share=0.5,
        where="read_window",
        note="called from get_batch; a profile that calls it data_wait is not wrong either",
    ),
    Truth(
        program="stateful_dataloader.py",
        command=_script("stateful_dataloader.py"),
        micro_batch=7,
        grad_accum=5,
        needs=("torchdata",),
    ),
    Truth(
        program="iterable_dataset.py",
        command=_script("iterable_dataset.py"),
        micro_batch=6,
        grad_accum=3,
        tokens_per_step=6 * 3 * 31,
        phase="data_wait",
        phase_share=0.4,
        where="__iter__",
        note="real work in a generator; the marked line holds most of it",
    ),
    Truth(
        program="batch_sampler.py",
        command=_script("batch_sampler.py"),
        micro_batch=15,
        grad_accum=2,
        note="loader.batch_size is None; lengths 10 to 40 vary by batch, nothing is padded",
    ),
    Truth(
        program="batch_dim1.py",
        command=_script("batch_dim1.py"),
        micro_batch=17,
        grad_accum=1,
        tokens_per_step=17 * 21,
        note="input is [21, 17], hidden state [2, 17, 64]; dim 0 is time",
    ),
    Truth(
        program="queue_feeder.py",
        command=_script("queue_feeder.py"),
        micro_batch=9,
        grad_accum=2,
        phase="data_wait",
        phase_share=0.5,
        where="train",
        note="waits in queue.Queue.get for what another thread makes",
    ),
    Truth(
        program="reentrant_checkpointing.py",
        command=_script("reentrant_checkpointing.py"),
        micro_batch=4,
        grad_accum=3,
        tokens_per_step=4 * 3 * 20,
        phase="backward",
        phase_share=0.35,
        note="each backward nests four more and calls the blocks again",
    ),
    Truth(
        program="per_sample_loop.py",
        command=_script("per_sample_loop.py"),
        micro_batch=8,
        grad_accum=1,
        note="eight forwards of one graph each to one backward; dim 0 of the input is nodes, "
        "so only the loader and the count of forwards tell the batch",
    ),
    Truth(
        program="chunked_batch.py",
        command=_script("chunked_batch.py"),
        micro_batch=6,
        grad_accum=4,
        phase="backward",
        phase_share=0.3,
        note="the loader's batch is 24",
    ),
    Truth(
        program="two_backwards.py",
        command=_script("two_backwards.py"),
        micro_batch=9,
        grad_accum=1,
        note="two backwards on one forward",
    ),
    Truth(
        program="distillation.py",
        command=_script("distillation.py"),
        micro_batch=10,
        grad_accum=2,
        phase="forward",
        phase_share=0.55,
        note="the teacher is in eval mode under no_grad in every micro-batch: not evaluation",
    ),
    Truth(
        program="evaluation_eval_mode.py",
        command=_script("evaluation_eval_mode.py"),
        micro_batch=6,
        grad_accum=3,
        run_phase="evaluation",
        run_phase_share=0.2,
        note="50 evaluation batches of 40 after every tenth step",
    ),
    Truth(
        program="evaluation_no_grad.py",
        command=_script("evaluation_no_grad.py"),
        micro_batch=10,
        grad_accum=2,
        tokens_per_step=10 * 2 * 24,
        run_phase="evaluation",
        run_phase_share=0.2,
        note="24 batches of 64 in train mode under no_grad before every eighth step, the first one included",
    ),
    Truth(
        program="checkpoint_every.py",
        command=_script("checkpoint_every.py"),
        micro_batch=12,
        grad_accum=2,
        run_phase="checkpoint",
        run_phase_share=0.2,
        note="12 MB by torch.save to ./checkpoints/last.pt after every fifth step; the input is "
        "one id a sample, not a sequence",
    ),
    Truth(
        program="padded_ids.py",
        command=_script("padded_ids.py"),
        micro_batch=8,
        grad_accum=2,
        tokens_per_step=8 * 2 * 40,
        padding_share=7 / 16,
        padding_tolerance=0.005,
        note="no attention mask: ids padded with 0, padding_idx=0",
    ),
    Truth(
        program="ddp_torchrun.py",
        command=(
            *("{python}", "-m", "torch.distributed.run", "--standalone"),
            *("--nproc_per_node", "2", "{programs}/ddp_torchrun.py"),
        ),
        micro_batch=6,
        grad_accum=2,
        world_size=2,
        note="no_sync on all but the last micro-batch",
    ),
    Truth(
        program="mp_spawn.py",
        command=_script("mp_spawn.py"),
        micro_batch=5,
        grad_accum=3,
        world_size=2,
        note="the parent never steps",
    ),
    Truth(
        program="hogwild.py",
        command=_script("hogwild.py"),
        micro_batch=9,
        grad_accum=1,
        world_size=1,
        note="two children train without a process group; the parent never steps",
    ),
    Truth(
        program="workers_fork.py",
        command=_script("workers_fork.py"),
        micro_batch=10,
        grad_accum=2,
        phase="data_wait",
        phase_share=0.5,
        note="two forked workers sleep in __getitem__, outside the training process",
    ),
    Truth(
        program="workers_spawn.py",
        command=_script("workers_spawn.py"),
        micro_batch=8,
        grad_accum=3,
        note="two spawned workers that import torch",
    ),
    Truth(
        program="lora_peft.py",
        command=_script("lora_peft.py"),
        micro_batch=2,
        grad_accum=8,
        tokens_per_step=2 * 8 * 40,
        padding_share=1 - (16 + 24 + 32 + 40) / 4 / 40,
        padding_tolerance=0.05,
        phase="forward",
        phase_share=0.35,
        needs=("transformers", "peft"),
        note="all inputs are keyword arguments; samples are shuffled",
    ),
    Truth(
        program="thread_training.py",
        command=_script("thread_training.py"),
        micro_batch=7,
        grad_accum=3,
        note="the main thread only sleeps and prints",
    ),
    Truth(
        program="shell_launched.py",
        command=("bash", "{programs}/run.sh", "{python}"),
        micro_batch=4,
        grad_accum=5,
        note="a shell script; accumulation is derived from the effective batch",
    ),
    Truth(
        program="shell_launched.py",
        command=(
            "bash",
            "-c",
            "cd / && '{python}' '{programs}/shell_launched.py' --batch_size 8 --effective_batch 16",
        ),
        micro_batch=8,
        grad_accum=2,
        note="bash -c with another folder",
    ),
    Truth(
        program="pkg/train.py",
        command=("{python}", "-m", "pkg.train"),
        in_programs=True,
        micro_batch=4,
        grad_accum=7,
        note="relative imports; settings in a dataclass; 210 batches an epoch, 30 whole windows",
    ),
    Truth(
        program="rl_rollout.py",
        command=_script("rl_rollout.py"),
        micro_batch=32,
        grad_accum=1,
        note="32 no_grad forwards of 8 before every 16 steps are the rollout, not evaluation; "
        "Agent is never called, only its actor and critic",
    ),
    Truth(
        program="heavy_loss.py",
        command=_script("heavy_loss.py"),
        micro_batch=6,
        grad_accum=2,
        phase="loss",
        phase_share=0.3,
        where="soft_dtw",
        note="the criterion is an nn.Module with a loop in Python, half of it in the marked line; "
        "its backward is as heavy",
    ),
    Truth(
        program="tensorboard_logging.py",
        command=_script("tensorboard_logging.py"),
        micro_batch=11,
        grad_accum=2,
        phase="logging",
        phase_share=0.5,
        needs=("tensorboard",),
        note="torch.utils.tensorboard writes ./runs",
    ),
    Truth(
        program="python_metrics.py",
        command=_script("python_metrics.py"),
        micro_batch=13,
        grad_accum=2,
        tokens_per_step=13 * 2 * 30,
        phase="other",
        phase_share=0.45,
        where="edit_distance",
        note="real work after each micro-batch, spread over the three lines of the inner loop",
    ),
)
"""Every style, each with its truth."""

FAULTS: tuple[Fault, ...] = (
    Fault(
        program="fault_before_first_step.py",
        steps=0,
        exit_code=1,
        note="FileNotFoundError, then CorpusError from it",
    ),
    Fault(program="fault_exit_code.py", steps=0, exit_code=7, note="sys.exit(7), words on stderr"),
    Fault(program="fault_fails_midway.py", steps=11, exit_code=1, note="IndexError in step 12"),
    Fault(program="fault_no_step.py", steps=0, exit_code=None, note="waits for ever after torch"),
    Fault(program="fault_no_torch.py", steps=0, exit_code=None, note="plain Python for 60 s"),
    Fault(
        program="fault_catches_interrupt.py",
        steps=None,
        exit_code=None,
        note="KeyboardInterrupt is caught: saves interrupted.pt, exit 0",
    ),
    Fault(
        program="fault_bare_except.py",
        steps=None,
        exit_code=None,
        note="SystemExit and KeyboardInterrupt inside a step are swallowed",
    ),
    Fault(
        program="fault_forks_sleeper.py",
        steps=None,
        exit_code=None,
        note="prints `helper PID`; the helper sleeps 600 s in a session of its own",
    ),
    Fault(
        program="fault_daemonises.py",
        steps=None,
        exit_code=0,
        note="prints `daemon PID`; training goes on there after the first process left",
    ),
    Fault(program="fault_os_exit.py", steps=30, exit_code=0, note="os._exit(0) after 30 steps"),
    Fault(
        program="fault_ignores_signals.py",
        steps=None,
        exit_code=None,
        note="only SIGKILL ends it before ten minutes are over",
    ),
    Fault(program="fault_finishes_early.py", steps=4, exit_code=0, note="four steps and done"),
    Fault(program="fault_loud.py", steps=None, exit_code=None, note="5 MB on stdout by step 25"),
    Fault(
        program="writes_everywhere.py",
        steps=40,
        exit_code=0,
        needs=("numpy", "safetensors"),
        note="changes its folder and ../ckpt_outside in every way it can",
    ),
)
"""Programs for the tests of errors, endings and the user's folder."""
