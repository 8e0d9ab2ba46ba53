"""Whole tunings, played: what is bound, what is tried, what is refused, what is claimed."""

from __future__ import annotations

from pathlib import Path

import pytest
from search.world import World, overhead

from upshift.config import cores
from upshift.errors import ProgramFailed
from upshift.knobs import allocators
from upshift.knobs.binding import FileKey, Flag, Variable
from upshift.knobs.discover import Seen
from upshift.plan import Setting, Unproven
from upshift.search.bench import Counted, Price
from upshift.verify.verdict import Verdict


def why(plan, what: str) -> str:
    return " ".join(reason for name, reason in plan.rejected if what in name)


def test_the_whole_batch_at_once_where_calls_have_a_fixed_cost(tmp_path: Path) -> None:
    world = World(folder=tmp_path)
    plan = world.tune()
    assert plan.values == {"micro_batch": 16, "grad_accum": 1}
    assert plan.speedup is not None and plan.speedup.claimed
    assert plan.change.command.argv[-4:] == ("--batch_size", "16", "--accum", "1")
    assert len(set(world.calls)) <= 4


def test_a_bigger_batch_that_is_slower_is_not_taken(tmp_path: Path) -> None:
    plan = World(folder=tmp_path, speed=lambda micro, accum: 5.0 if micro == 1 else 20 / micro).tune()
    assert plan.settings == ()
    assert "no other micro-batch is faster" in why(plan, "micro_batch")


def test_the_best_may_lie_in_the_middle(tmp_path: Path) -> None:
    rates = {1: 4.0, 2: 7.0, 4: 11.0, 8: 9.0, 16: 3.0}
    world = World(folder=tmp_path, argv=("--batch_size", "1", "--accum", "16"), speed=lambda m, a: rates[m])
    assert world.tune().values["micro_batch"] == 4


def test_out_of_memory_is_an_answer(tmp_path: Path) -> None:
    plan = World(folder=tmp_path, argv=("--batch_size", "1", "--accum", "16"), fits=4).tune()
    assert plan.values == {"micro_batch": 4, "grad_accum": 4}
    assert any(t.outcome == "oom" for t in plan.trials)


def test_not_the_same_training_is_not_taken_however_fast(tmp_path: Path) -> None:
    world = World(folder=tmp_path, same=lambda micro, accum: accum == 8)
    plan = world.tune()
    assert plan.settings == ()
    assert "mean of means" in why(plan, "micro_batch")
    assert world.proofs == 1


def test_a_plan_cannot_be_made_without_a_verdict() -> None:
    verdict = Verdict(kind="different", because="BatchNorm")
    with pytest.raises(Unproven, match="BatchNorm"):
        Setting(
            knob="micro_batch",
            before=1,
            after=2,
            effect="exact",
            gain=2.0,
            reason="",
            binding=Flag("-b"),
            verdict=verdict,
        )


def test_a_flag_that_is_parsed_and_never_used(tmp_path: Path) -> None:
    """--batch_size is dead; --train-batch-size is what counts."""

    def read(change):
        return int(str(Flag("--train-batch-size").now(change))), int(str(Flag("--accum").now(change)))

    argv = ("--batch_size", "2", "--train-batch-size", "2", "--accum", "8")
    plan = World(folder=tmp_path, argv=argv, read=read).tune()
    assert plan.values["micro_batch"] == 16
    assert [str(s.binding) for s in plan.settings] == ["--train-batch-size", "--accum"]
    assert "stayed what it was" in why(plan, "--batch_size")


def test_a_batch_asserted_in_code(tmp_path: Path) -> None:
    plan = World(folder=tmp_path, crashes=lambda micro, accum: micro != 2).tune()
    assert plan.settings == ()
    assert "AssertionError" in why(plan, "micro_batch")


def test_batch_times_accumulation_asserted(tmp_path: Path) -> None:
    plan = World(folder=tmp_path, crashes=lambda micro, accum: micro * accum != 16).tune()
    assert plan.values == {"micro_batch": 16, "grad_accum": 1}


def test_accumulation_derived_from_the_batch(tmp_path: Path) -> None:
    def read(change):
        micro = int(str(Flag("--batch_size").now(change)))
        return micro, 16 // micro

    plan = World(folder=tmp_path, argv=("--batch_size", "2"), read=read).tune()
    assert plan.values == {"micro_batch": 16}
    assert plan.change.command.argv[-1] == "16"


def test_a_batch_without_an_accumulation_is_not_tried_at_all_its_places(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("batch_size: 2\n")
    world = World(
        folder=tmp_path,
        argv=("--batch_size", "2", "--config", "c.yaml"),
        seen=Seen(flags={}, files=(tmp_path / "c.yaml",), sources=()),
        read=lambda change: (int(str(Flag("--batch_size").now(change))), 4),
    )
    plan = world.tune()
    assert plan.settings == ()
    assert world.calls.count((8, 4)) == 1
    assert "effective batch became 32" in why(plan, "--batch_size alone")


def test_accumulation_derived_beside_a_flag_for_it_that_is_dead(tmp_path: Path) -> None:
    def read(change):
        micro = int(str(Flag("--batch_size").now(change)))
        return micro, 16 // micro

    argv = ("--batch_size", "2", "--accum", "8", "--total_batch_size", "16")
    plan = World(folder=tmp_path, argv=argv, read=read).tune()
    assert plan.values == {"micro_batch": 16}


def test_a_batch_that_the_accumulation_cuts_into_pieces(tmp_path: Path) -> None:
    """--train_batch_size is that of a step; micro-batches follow from the accumulation."""

    def read(change):
        accum = int(str(Flag("--accum").now(change)))
        return int(str(Flag("--train_batch_size").now(change))) // accum, accum

    argv = ("--train_batch_size", "16", "--accum", "8")
    plan = World(folder=tmp_path, argv=argv, read=read).tune()
    assert plan.values == {"grad_accum": 1}
    assert plan.settings[0].gain is not None
    assert plan.change.command.argv[-4:] == ("--train_batch_size", "16", "--accum", "1")


def test_an_effective_batch_that_only_informs(tmp_path: Path) -> None:
    argv = ("--batch_size", "2", "--accum", "8", "--total_batch_size", "16")
    assert World(folder=tmp_path, argv=argv).tune().values == {"micro_batch": 16, "grad_accum": 1}


def test_a_batch_and_an_accumulation_of_the_same_number(tmp_path: Path) -> None:
    """Both are 4, and the accumulation is known by its number alone: it is not the batch's own place."""

    def read(change):
        return int(str(Flag("--batch_size").now(change))), int(str(Flag("--batch_multiplier").now(change)))

    argv = ("--batch_size", "4", "--batch_multiplier", "4")
    plan = World(folder=tmp_path, argv=argv, read=read).tune()
    assert plan.values == {"micro_batch": 16, "grad_accum": 1}


def test_a_loader_bound_run_keeps_its_batch(tmp_path: Path) -> None:
    plan = World(folder=tmp_path, data_share=0.8).tune()
    assert plan.settings == ()
    assert "the loader comes first" in why(plan, "micro_batch")


def test_an_effective_batch_with_no_divisor_but_itself(tmp_path: Path) -> None:
    world = World(folder=tmp_path, argv=("--batch_size", "1", "--accum", "13"), fits=12)
    plan = world.tune()
    assert plan.settings == ()
    assert world.calls.count((13, 1)) >= 1


def test_noise_so_large_that_nothing_can_be_claimed(tmp_path: Path) -> None:
    world = World(folder=tmp_path, speed=overhead(0.02, 1.0), noise=0.6)
    plan = world.tune()
    assert plan.settings == ()
    assert plan.speedup is None or not plan.speedup.claimed


def test_an_unlucky_trial_does_not_decide_between_the_fastest(tmp_path: Path) -> None:
    """The machine is slow while 16 is tried for the first time; beside 8 it shows its speed."""
    moments = iter([0.7])

    def extra(change):
        return next(moments, 1.0) if Flag("--batch_size").now(change) == 16 else 1.0

    plan = World(folder=tmp_path, extra=extra).tune()
    assert plan.values["micro_batch"] == 16


def test_two_files_of_which_one_is_dead(tmp_path: Path) -> None:
    dead, alive = tmp_path / "dead.yaml", tmp_path / "alive.yaml"
    for path in (dead, alive):
        path.write_text("train:\n  batch_size: 2  # samples\n  grad_accum: 8\n")

    def read(change):
        return tuple(int(str(FileKey(alive, f"train.{k}").now(change))) for k in ("batch_size", "grad_accum"))

    seen = Seen(flags={}, files=(dead, alive), sources=())
    plan = World(folder=tmp_path, argv=(), read=read, seen=seen).tune()
    assert plan.values == {"micro_batch": 16, "grad_accum": 1}
    assert set(plan.change.files) == {alive}
    assert plan.change.files[alive] == "train:\n  batch_size: 16  # samples\n  grad_accum: 1\n"


def test_the_best_lies_between_two_that_are_slower(tmp_path: Path) -> None:
    def speed(micro: int, accum: int) -> float:
        return micro / (1 + 0.1 * micro) / (5 if micro > 4 else 1)

    plan = World(folder=tmp_path, speed=speed).tune()
    assert plan.values == {"micro_batch": 4, "grad_accum": 4}


def test_what_does_not_fit_is_not_what_is_proven(tmp_path: Path) -> None:
    """On a GPU the proof would run out of memory as the trial has."""
    world = World(folder=tmp_path, fits=4)

    def verdict(change):
        if world.settings(change)[0] > world.fits:
            raise ProgramFailed("out of memory", program_exit_code=1, output="")
        return Verdict(kind="same", because="agreed")

    world.verdict = verdict
    plan = world.tune(only=frozenset({"micro_batch"}))
    assert plan.values == {"micro_batch": 4, "grad_accum": 4}
    assert why(plan, "micro_batch → 16") == why(plan, "micro_batch → 8") == "does not fit in memory"


def test_where_memory_is_limited_the_first_step_is_shorter(tmp_path: Path) -> None:
    for limited, first in (False, (16, 1)), (True, (8, 2)):
        world = World(folder=tmp_path)
        world.tune(memory_limited=limited, only=frozenset({"micro_batch"}))
        assert world.calls[1] == first


def test_what_belongs_together_is_tried_together(tmp_path: Path) -> None:
    """Four sections hold the same values, the last one is read: four runs tell, not one for each pair."""
    config = tmp_path / "c.yaml"
    config.write_text("".join(f"{name}:\n  batch_size: 2\n  grad_accum: 8\n" for name in "abcd"))

    def read(change):
        return tuple(int(str(FileKey(config, f"d.{k}").now(change))) for k in ("batch_size", "grad_accum"))

    world = World(folder=tmp_path, argv=(), read=read, seen=Seen(flags={}, files=(config,), sources=()))
    assert world.tune(only=frozenset({"micro_batch"})).values == {"micro_batch": 16, "grad_accum": 1}
    assert world.calls[1:5] == [(2, 8)] * 3 + [(16, 1)]


def test_time_for_confirming_is_kept_where_starting_takes_long(tmp_path: Path) -> None:
    """Three starts of a minute take more than a third of four minutes: fewer trials are made."""
    for start, tried in (1.0, True), (59.0, False):
        world = World(folder=tmp_path, settled=lambda change, start=start: start, trial_seconds=100.0)
        plan = world.tune(budget_seconds=240.0)
        assert bool(plan.settings) is tried


def test_the_budget_ends_the_search(tmp_path: Path) -> None:
    plan = World(folder=tmp_path).tune(budget_seconds=0.05)
    assert plan.settings == ()
    assert "--budget" in why(plan, "budget")


# ---- counted in micro-batches ----


def counting(folder: Path, argv: tuple[str, ...], in_micro: set[str]) -> World:
    """A script whose --max_steps, --eval_every and --save_every are counted as said."""

    def counts(change):
        accum = int(str(Flag("--accum").now(change)))

        def steps(flag):
            value = int(str(Flag(flag).now(change) or 10**9))
            return value // accum if flag in in_micro else value

        made = min(8, steps("--max_steps"))
        return Counted(
            steps=made,
            ended=made < 8,
            evaluations=made // max(1, steps("--eval_every")),
            saves=made // max(1, steps("--save_every")),
        )

    return World(folder=folder, argv=("--batch_size", "2", "--accum", "8", *argv), counts=counts)


def test_a_limit_in_micro_batches_follows_the_accumulation(tmp_path: Path) -> None:
    argv = ("--max_steps", "800", "--eval_every", "80", "--save_every", "5")
    plan = counting(tmp_path, argv, {"--max_steps", "--eval_every"}).tune()
    assert plan.values == {"micro_batch": 16, "grad_accum": 1, "max_steps": 100, "eval_every": 10}
    assert "--save_every" in plan.change.command.argv and "5" in plan.change.command.argv
    assert any("--max_steps counts micro-batches" in note for note in plan.notes)


def test_the_whole_training_is_as_long_as_its_limit_says(tmp_path: Path) -> None:
    """8000 micro-batches are 1000 steps of 16 samples, 8 s each at first."""

    def ends(unit: int):
        """After as many optimizer steps as `unit` of the limit stand for."""

        def counts(change) -> Counted:
            steps = int(str(Flag("--max_steps").now(change))) // unit
            return Counted(steps=min(steps, 8), ended=steps <= 8, evaluations=0, saves=0)

        return counts

    world = World(folder=tmp_path, argv=("--batch_size", "2", "--accum", "8", "--max_steps", "8000"))
    assert world.tune().length is None, "it goes on: epochs, or a limit that is overruled"
    world.counts = ends(unit=1)
    assert (plan := world.tune()).length is not None and plan.length.steps == 8000
    world.counts = ends(unit=8)
    plan = world.tune()
    assert plan.length is not None and plan.length.steps == 1000
    assert plan.whole_seconds is not None and plan.speedup is not None
    before, after = plan.whole_seconds
    assert before == pytest.approx(1000 * (plan.baseline.step_seconds or 0))
    assert before / after == pytest.approx(plan.speedup.ratio)


def test_a_limit_in_optimizer_steps_stays(tmp_path: Path) -> None:
    plan = counting(tmp_path, ("--max_steps", "800", "--eval_every", "80"), set()).tune()
    assert plan.values == {"micro_batch": 16, "grad_accum": 1}
    assert "800" in plan.change.command.argv


def test_a_warm_up_in_micro_batches_is_brought_along(tmp_path: Path) -> None:
    def verdict(change):
        accum, warmup = (int(str(Flag(f).now(change))) for f in ("--accum", "--warmup_steps"))
        if warmup == 80 * accum // 8:
            return Verdict(kind="same", because="agreed")
        return Verdict(kind="different", because="another learning rate", cause="schedule")

    argv = ("--batch_size", "2", "--accum", "8", "--warmup_steps", "80")
    plan = World(folder=tmp_path, argv=argv, verdict=verdict).tune()
    assert plan.values == {"micro_batch": 16, "grad_accum": 1, "warmup": 10}


# ---- other knobs ----


def test_slower_here_is_not_chosen(tmp_path: Path) -> None:
    """bf16 that is emulated, a compile that brings nothing."""
    seen = Seen(flags={"--bf16": False, "--compile": False}, files=(), sources=())

    def extra(change):
        return 0.4 if Flag("--bf16").now(change) is True else 0.9 if Flag("--compile").now(change) else 1.0

    plan = World(folder=tmp_path, extra=extra, seen=seen).tune(plan="balanced")
    assert "precision" not in plan.values and "compile" not in plan.values
    assert "0.40×" in why(plan, "precision") and "0.90×" in why(plan, "compile")


@pytest.mark.parametrize(
    ("spelt", "lower"), [("float32", "bfloat16"), ("no", "bf16"), ("32-true", "bf16-mixed")]
)
def test_precision_is_lowered_as_the_script_spells_it(spelt: str, lower: str, tmp_path: Path) -> None:
    seen = Seen(flags={"--label-dtype": "int64", "--precision": spelt}, files=(), sources=())

    def extra(change):
        return (
            2.0
            if Flag("--precision").now(change) == lower
            else 0.5
            if "--precision" in change.command.argv
            else 1.0
        )

    plan = World(folder=tmp_path, extra=extra, seen=seen).tune(plan="balanced", only=frozenset({"precision"}))
    assert plan.values == {"precision": lower}


def compiled(folder: Path) -> World:
    seen = Seen(flags={}, files=(), sources=(), switches={"--compile": None})
    return World(
        folder=folder,
        seen=seen,
        extra=lambda change: 2.0 if "--compile" in change.command.argv else 1.0,
        settled=lambda change: 100.0 if "--compile" in change.command.argv else 1.0,
    )


def test_a_compilation_must_be_earned_back(tmp_path: Path) -> None:
    assert compiled(tmp_path).tune(only=frozenset({"compile"})).values == {"compile": True}
    plan = compiled(tmp_path).tune(only=frozenset({"compile"}), steps_remaining=10)
    assert plan.settings == ()
    assert "10 remain" in why(plan, "compile")
    plan = compiled(tmp_path).tune(only=frozenset({"compile"}), steps_remaining=100_000)
    assert plan.values == {"compile": True}
    assert plan.change.command.argv[-1] == "--compile"


def test_the_loader_first_then_the_batch(tmp_path: Path) -> None:
    argv = ("--batch_size", "2", "--accum", "8", "--num_workers", "0")

    def workers(change):
        return int(str(Flag("--num_workers").now(change)))

    world = World(
        folder=tmp_path,
        argv=argv,
        waits=lambda change: 0.0 if workers(change) else 0.8,
        extra=lambda change: 1.0 if workers(change) else 0.2,
    )
    plan = world.tune()
    assert [s.knob for s in plan.settings] == ["workers", "micro_batch", "grad_accum"]


def test_workers_that_pay_only_with_larger_batches(tmp_path: Path) -> None:
    """Handing a batch over has a price: with two samples in it workers lose, with sixteen they win."""
    argv = ("--batch_size", "2", "--accum", "8", "--num_workers", "0")

    def by_workers(change) -> float:
        handed_over = int(str(Flag("--batch_size").now(change))) >= 8
        return (2.0 if handed_over else 0.5) if Flag("--num_workers").now(change) else 1.0

    world = World(folder=tmp_path, argv=argv, data_share=0.8, extra=by_workers)
    plan = world.tune()
    assert int(str(plan.values["micro_batch"])) >= 8 and int(str(plan.values["workers"])) > 0
    assert "0.50×" not in why(plan, "workers") and not why(plan, "micro_batch")
    gains = {s.knob: s.gain for s in plan.settings}
    assert gains["workers"] is None and gains["micro_batch"] and gains["micro_batch"] > 4


def test_workers_that_pay_only_where_threads_leave_them_a_core(tmp_path: Path) -> None:
    """Two threads on two cores are in the workers' way: workers and larger batches lose until there is one."""
    argv = ("--batch_size", "2", "--accum", "8", "--num_workers", "0")

    def by_cores(change) -> float:
        if not int(str(Flag("--num_workers").now(change))):
            return 1.0
        in_the_way = 1.0 if Variable("OMP_NUM_THREADS").now(change) == "1" else 0.4
        return in_the_way * (2.0 if int(str(Flag("--batch_size").now(change))) >= 8 else 0.3)

    world = World(folder=tmp_path, argv=argv, data_share=0.8, extra=by_cores, speed=lambda micro, accum: 10.0)
    plan = world.tune(cores=2)
    assert plan.values["workers"] and plan.values["threads"] == 1
    assert int(str(plan.values["micro_batch"])) >= 8
    assert not [t for t in plan.trials if t.settings.get("threads") == 2], "where it came from"


@pytest.mark.parametrize(("two_alone", "chosen"), [(0.5, 2), (0.3, 1)])
def test_workers_that_are_alike_slow_alone_are_many_with_larger_batches(
    two_alone: float, chosen: int, tmp_path: Path
) -> None:
    """With batches of two they all do nothing but hand over; twice as many make larger ones twice as fast."""
    argv = ("--batch_size", "2", "--accum", "8", "--num_workers", "0")

    def by_workers(change) -> float:
        workers = int(str(Flag("--num_workers").now(change)))
        if int(str(Flag("--batch_size").now(change))) >= 8:
            return workers or 1.0
        return (1.0, 0.55, two_alone)[min(workers, 2)]

    world = World(folder=tmp_path, argv=argv, data_share=0.8, extra=by_workers)
    values = world.tune(only=frozenset({"micro_batch", "workers"})).values
    assert values["workers"] == chosen and int(str(values["micro_batch"])) >= 8


def test_other_programs_on_the_machine_are_named(tmp_path: Path) -> None:
    plan = World(folder=tmp_path, neighbours=("cc1plus (pid 7)",)).tune()
    assert plan.settings, "what pays is found all the same"
    note = next(note for note in plan.notes if "other programs" in note)
    assert f"{len(plan.trials)} of {len(plan.trials)} trials (cc1plus (pid 7))" in note
    assert not any("other programs" in note for note in World(folder=tmp_path).tune().notes)


def test_what_all_is_held_against_is_measured_again_beside_no_other_program(tmp_path: Path) -> None:
    world = World(folder=tmp_path, neighbours=("cc1plus (pid 7)",))
    world.extra = lambda change: 0.02 if len(world.calls) == 1 else 1.0
    plan = world.tune()
    assert plan.baseline.samples_per_second == pytest.approx(2 / 1.2)
    assert all(s.gain is None or s.gain < 10 for s in plan.settings)


def test_a_knob_that_is_fixed_is_not_searched(tmp_path: Path) -> None:
    world = World(folder=tmp_path)
    plan = world.tune(fixed={"micro_batch": 4})
    assert plan.values == {"micro_batch": 4, "grad_accum": 4}
    assert {micro for micro, _ in world.calls} == {2, 4}
    plan = World(folder=tmp_path).tune(fixed={"micro_batch": 5})
    assert "no divisor" in why(plan, "micro_batch")


def test_strict_takes_only_what_is_the_same_to_rounding(tmp_path: Path) -> None:
    noisy = Verdict(kind="within_noise", because="as noisy as the run itself")
    assert World(folder=tmp_path, verdict=lambda change: noisy).tune().values["micro_batch"] == 16
    plan = World(folder=tmp_path, verdict=lambda change: noisy).tune(strict=True)
    assert plan.settings == ()
    assert "--strict" in why(plan, "micro_batch")


def test_a_minute_to_start_leaves_time_for_few_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("upshift.search.bench.time.perf_counter", lambda: clock[0])
    world = World(folder=tmp_path, trial_seconds=70.0)
    run = world.run

    def slow(change, settings):
        clock[0] += 70.0
        return run(change, settings)

    world.run = slow  # type: ignore[method-assign]
    plan = world.tune(budget_seconds=300.0)
    assert len(plan.trials) <= 4
    assert plan.values["micro_batch"] > 2


# ---- memory that a short trial does not see ----


def test_the_longest_batch_must_fit_too(tmp_path: Path) -> None:
    world = World(folder=tmp_path, longest_fits=4)
    plan = world.tune(memory_limited=True)
    assert plan.values["micro_batch"] == 4
    assert "longest batch" in why(plan, "micro_batch → 16")
    assert World(folder=tmp_path, longest_fits=4).tune().values["micro_batch"] == 16


# ---- little gains, and what is beside the steps ----


def test_a_small_gain_is_looked_at_again_beside_the_best(tmp_path: Path) -> None:
    """The first trial with the flag falls into a fast moment of the machine."""
    seen = Seen(flags={}, files=(), sources=(), switches={"--compile": None})
    moments = iter([1.0, 1.15])

    def extra(change):
        return next(moments, 1.0)

    world = World(folder=tmp_path, extra=extra, seen=seen)
    plan = world.tune(only=frozenset({"compile"}))
    assert plan.settings == ()
    assert "1.15× at first, 1.00× beside the best" in why(plan, "compile")


def test_a_lucky_start_of_the_best_does_not_hide_what_pays(tmp_path: Path) -> None:
    """As it is, the first start has its heap lie well: 1.2 times as fast as all others."""
    seen = Seen(flags={}, files=(), sources=(), switches={"--compile": None})
    moments = iter([1.2])

    def extra(change):
        return next(moments, 1.0) * (1.15 if "--compile" in change.command.argv else 1.0)

    world = World(folder=tmp_path, extra=extra, seen=seen)
    plan = world.tune(only=frozenset({"compile"}))
    assert plan.values == {"compile": True}
    assert plan.settings[0].gain == pytest.approx(1.15)


def test_memory_that_is_kept_lets_larger_batches_pay(tmp_path: Path) -> None:
    """As it is, a larger batch faults in more memory than its fewer calls save."""

    def extra(change):
        if "GLIBC_TUNABLES" in change.environment:
            return 1.2
        return 1.0 if world.settings(change)[0] == 2 else 0.2

    world = World(folder=tmp_path, extra=extra)
    plan = world.tune(only=frozenset({"micro_batch", "allocator"}))
    assert plan.values["micro_batch"] == 16 and "allocator" in plan.values


def test_kept_memory_that_pays_only_with_larger_batches_is_tried_with_them(tmp_path: Path) -> None:
    def extra(change):
        return 1.2 if "GLIBC_TUNABLES" in change.environment and world.settings(change)[0] > 2 else 1.0

    world = World(folder=tmp_path, extra=extra)
    plan = world.tune(only=frozenset({"micro_batch", "allocator"}))
    assert {"micro_batch", "allocator"} <= set(plan.values)
    assert not [what for what, _ in plan.rejected if what.startswith("allocator")], "refused at first only"


def test_another_allocator_takes_the_place_of_kept_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries = {"tcmalloc": "/lib/libtcmalloc_minimal.so.4", "jemalloc": "/lib/libjemalloc.so.2"}
    monkeypatch.setattr(allocators, "installed", lambda: libraries)

    def extra(change):
        told = str(change.environment)
        return 1.5 if "tcmalloc" in told else 1.4 if "jemalloc" in told else 1.2 if "malloc" in told else 1.0

    plan = World(folder=tmp_path, extra=extra).tune(only=frozenset({"allocator"}))
    assert plan.change.environment == {"LD_PRELOAD": libraries["tcmalloc"]}
    (setting,) = plan.settings
    assert (setting.before, setting.after) == (None, "tcmalloc") and setting.gain == pytest.approx(1.5)
    assert [what for what, _ in plan.rejected] == ["allocator → jemalloc"]


def test_an_allocator_that_would_help_and_is_not_there_is_named(tmp_path: Path) -> None:
    world = World(folder=tmp_path, extra=lambda change: 1.2 if change.environment else 1.0)
    plan = world.tune(only=frozenset({"allocator"}))
    assert plan.values == {"allocator": "glibc-keeping"}
    assert any("libtcmalloc-minimal4" in note for note in plan.notes)


def test_the_users_own_allocator_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocators, "installed", lambda: {"tcmalloc": "/lib/libtcmalloc_minimal.so.4"})
    monkeypatch.setenv("LD_PRELOAD", "/lib/libjemalloc.so.2")
    world = World(folder=tmp_path, extra=lambda change: 1.2 if change.environment else 1.0)
    assert world.tune(only=frozenset({"allocator"})).settings == () and len(world.calls) == 1


def test_threads_that_the_program_sets_itself_are_left_alone(tmp_path: Path) -> None:
    """Its second trial happens to be quicker: no reason to believe in a setting that was not made."""
    moments = iter([1.0, 1.5])
    many = max(2, cores())
    world = World(folder=tmp_path, extra=lambda change: next(moments, 1.0), threads=many)
    plan = world.tune(only=frozenset({"threads"}))
    assert plan.settings == () and len(world.calls) == 2
    assert dict(plan.rejected) == {"threads → 1": f"set, and the program has {many}: it says so itself"}


def test_what_cannot_pay_is_not_tried(tmp_path: Path) -> None:
    argv = ("--batch_size", "2", "--accum", "8", "--num_workers", "0")
    world = World(folder=tmp_path, argv=argv, data_share=0.01)
    plan = world.tune(only=frozenset({"workers"}))
    assert len(world.calls) == 1 and plan.settings == ()


def test_prefetching_is_for_workers_that_are_waited_for(tmp_path: Path) -> None:
    """A prefetch factor without workers is an error of the DataLoader; with one rank there are no buckets."""
    seen = Seen(flags={"--prefetch_factor": None, "--bucket_cap_mb": None}, files=(), sources=())
    only = frozenset({"prefetch_factor", "ddp_bucket"})
    for workers, trials in ((0, 1), (2, 4)):  # as it is; two values, and as it is on another start
        world = World(folder=tmp_path, seen=seen, data_share=0.3, workers=workers)
        plan = world.tune(only=only)
        assert len(plan.trials) == trials and "ddp_bucket" not in dict(plan.rejected)


def test_what_only_upshift_can_carry_must_bring_more(tmp_path: Path) -> None:
    """Channels last only for convolutions, one exchange only where there are many; and not for five per cent."""
    for lever, evidence in (
        ("channels_last", "convolution"),
        ("no_sync", "exchange"),
        ("length_groups", "padding"),
    ):
        for gain, share, taken in ((1.5, 0.6, True), (1.05, 0.6, False), (1.5, 0.0, False)):

            def extra(change, lever=lever, gain=gain):
                return gain if change.levers.get(lever) else 1.0

            world = World(folder=tmp_path, extra=extra, shares={evidence: share})
            plan = world.tune(only=frozenset({lever}))
            assert plan.values == ({lever: True} if taken else {})
            assert plan.change.levers == plan.values


def test_bfloat16_without_a_setting_for_it_is_a_balanced_lever(tmp_path: Path) -> None:
    def extra(change) -> float:
        return 2.0 if change.levers.get("autocast") else 1.0

    world = World(folder=tmp_path, extra=extra)
    only = frozenset({"autocast"})
    assert world.tune(only=only).values == {}
    assert world.tune(only=only, plan="balanced").values == {"autocast": True}


def test_bfloat16_is_not_turned_twice(tmp_path: Path) -> None:
    """The script's own setting comes first, and then there is nothing left for the lever."""

    def extra(change) -> float:
        return 2.0 if Flag("--bf16").now(change) is True or change.levers.get("autocast") else 1.0

    world = World(folder=tmp_path, argv=("--bf16", "False"), extra=extra, read=lambda change: (8, 1))
    plan = world.tune(only=frozenset({"precision", "autocast"}), plan="balanced")
    assert plan.values == {"precision": True}
    assert not any("autocast" in trial.settings for trial in plan.trials)


def test_compiling_without_a_switch_is_for_gpus_unless_it_is_asked_for(tmp_path: Path) -> None:
    def extra(change) -> float:
        return 1.5 if change.levers.get("compiled") else 1.0

    world = World(folder=tmp_path, extra=extra)
    only = frozenset({"compiled"})
    assert world.tune(only=only).values == {}
    assert world.tune(only=only, fixed={"compiled": True}).values == {"compiled": True}
    world = World(folder=tmp_path, extra=extra, device="cuda")
    assert world.tune(only=only).values == {"compiled": True}


def test_few_steps_left_are_not_worth_a_search(tmp_path: Path) -> None:
    seen = Seen(flags={}, files=(), sources=(), switches={"--compile": None})
    for steps, trials in ((10, 1), (100_000, 3)):  # as it is; with the flag, and as it is on another start
        world = World(folder=tmp_path, seen=seen, trial_seconds=100.0)
        plan = world.tune(only=frozenset({"compile"}), steps_remaining=steps, budget_seconds=1e6)
        assert len(plan.trials) == trials


def saving(folder: Path) -> World:
    """Saving every two steps takes half of the run."""

    def beside(change):
        return {"saving": 1 / (1 + int(str(Flag("--save_every").now(change))) / 2)}

    argv = ("--batch_size", "16", "--accum", "1", "--save_every", "2")
    return World(folder=folder, argv=argv, beside=beside)


def test_saving_that_eats_the_run_is_made_seldom(tmp_path: Path) -> None:
    plan = saving(tmp_path).tune()
    assert plan.values == {"save_every": 58}
    assert plan.speedup is not None and plan.speedup.ratio == pytest.approx(1.93, rel=0.02)
    assert saving(tmp_path).tune(skip=frozenset({"save_every"})).settings == ()


def evaluating(folder: Path, seconds: float, steps: int = 3) -> World:
    """Every hundred steps, which no short trial sees; with small numbers the first comes after so many steps."""
    argv = ("--batch_size", "2", "--accum", "8", "--eval_every", "100")
    return World(
        folder=folder, argv=argv, prices=lambda change: {"evaluation": Price(seconds=seconds, steps=steps)}
    )


def test_evaluations_that_no_trial_sees_are_priced_and_made_seldom(tmp_path: Path) -> None:
    """A step takes 9.6 s and then 2.6: a hundred seconds every hundred steps were a tenth and become a quarter."""
    plan = evaluating(tmp_path, 100.0).tune()
    assert plan.values == {"micro_batch": 16, "grad_accum": 1, "eval_every": 1100}
    assert plan.speedup is not None and plan.speedup.ratio == pytest.approx(9.6 / 2.6), "of steps"
    assert plan.run_ratio == pytest.approx((9.6 + 1) / (2.6 + 100 / 1100))
    assert plan.settings[-1].gain == pytest.approx((2.6 + 1) / (2.6 + 1 / 11))


def test_what_stands_beside_the_steps_pays_by_itself(tmp_path: Path) -> None:
    plan = evaluating(tmp_path, 100.0, steps=24).tune(only=frozenset({"eval_every"}))
    assert plan.values == {"eval_every": 300}
    assert plan.speedup is not None and not plan.speedup.claimed
    assert plan.run_ratio == pytest.approx((9.6 + 1) / (9.6 + 1 / 3))


def test_evaluations_that_cost_little_are_counted_and_left_alone(tmp_path: Path) -> None:
    plan = evaluating(tmp_path, 1.0).tune()
    assert set(plan.values) == {"micro_batch", "grad_accum"}
    assert plan.run_ratio == pytest.approx(9.61 / 2.61)


def test_evaluations_counted_in_micro_batches_are_known_by_when_they_come(tmp_path: Path) -> None:
    """Two micro-batches of eight a step are all that fits: a hundred of them are fifty steps."""
    for steps, every in (3, 50), (4, 50), (6, 100):
        world = evaluating(tmp_path, 1.0, steps=steps)
        world.fits = 8
        (beside,) = world.tune().beside
        assert beside.every == every


def test_evaluations_that_come_for_another_reason_are_not_counted(tmp_path: Path) -> None:
    plan = evaluating(tmp_path, 100.0, steps=6).tune()
    assert set(plan.values) == {"micro_batch", "grad_accum"} and plan.beside == ()


# ---- another training: shown with its price, never taken ----


def shorter(folder: Path, **more: object) -> World:
    """Half the length takes half the time, and the loss ends higher."""
    argv = ("--batch_size", "16", "--accum", "1", "--max_length", "64")
    return World(
        folder=folder,
        argv=argv,
        speed=lambda micro, accum: 16.0,
        extra=lambda change: 64 / int(str(Flag("--max_length").now(change))),
        **more,  # type: ignore[arg-type]
    )


def test_the_aggressive_plan_shows_what_speed_costs(tmp_path: Path) -> None:
    plan = shorter(tmp_path).tune(plan="aggressive")
    assert plan.settings == () and plan.change.command.argv[-1] == "64"
    same, less, half = plan.quality
    assert (same.knob, same.time) == (None, 1.0)
    assert [(c.before, c.after) for c in (less, half)] == [(64, 48), (64, 32)]
    assert half.time == pytest.approx(0.5)
    assert same.equal_steps is not None and half.equal_steps is not None and half.equal_time is not None
    assert half.equal_steps.value == pytest.approx(same.equal_steps.value + 0.5)
    assert half.equal_time.steps == 2 * half.equal_steps.steps
    assert half.equal_time.value < half.equal_steps.value
    assert shorter(tmp_path).tune(plan="balanced").quality == ()


def test_another_learning_rate_is_shown_and_not_taken(tmp_path: Path) -> None:
    argv = ("--batch_size", "16", "--accum", "1", "--lr", "6e-4")
    plan = World(folder=tmp_path, argv=argv).tune(plan="aggressive")
    assert [(c.knob, c.after) for c in plan.quality[1:]] == [
        ("learning_rate", 0.0012),
        ("learning_rate", 0.0003),
    ]
    assert plan.settings == () and plan.change.command.argv[-1] == "6e-4"


def test_fewer_epochs_are_extrapolated_and_say_so(tmp_path: Path) -> None:
    argv = ("--batch_size", "16", "--accum", "1", "--epochs", "8")
    world = World(folder=tmp_path, argv=argv)
    plan = world.tune(plan="aggressive", only=frozenset({"epochs"}))
    same, *fewer = plan.quality
    assert [(c.knob, c.after, c.time) for c in fewer] == [("epochs", 6, 0.75), ("epochs", 4, 0.5)]
    assert all(c.extrapolated for c in fewer) and not same.extrapolated
    assert same.equal_steps is not None and fewer[1].equal_steps is not None
    assert fewer[1].equal_steps.value > same.equal_steps.value
    assert fewer[1].equal_steps.steps == same.equal_steps.steps // 2


def test_evaluations_of_a_part_are_a_choice_where_they_eat_the_run(tmp_path: Path) -> None:
    argv = ("--batch_size", "16", "--accum", "1", "--eval_iters", "40", "--val_batches", "40")

    def beside(change):  # the second flag is dead
        seconds = int(str(Flag("--eval_iters").now(change))) / 40
        return {"evaluation": seconds / (1 + seconds)}

    only = frozenset({"eval_part"})
    plan = World(folder=tmp_path, argv=argv, beside=beside).tune(plan="aggressive", only=only)
    assert [(str(c.binding), c.after) for c in plan.quality[1:]] == [
        ("--eval_iters", 20),
        ("--eval_iters", 10),
    ]
    assert plan.quality[1].time == pytest.approx(0.75)
    assert plan.quality[1].equal_steps == plan.quality[0].equal_steps
    assert "as long as before" in why(plan, "--val_batches")
    assert World(folder=tmp_path, argv=argv).tune(plan="aggressive", only=only).quality == ()


def test_a_run_that_ends_early_does_not_tell_the_loss_later_on(tmp_path: Path) -> None:
    plan = shorter(tmp_path, last_step=30).tune(plan="aggressive")
    assert plan.quality[-1].equal_steps is not None
    assert plan.quality[-1].equal_time is None


def test_a_limit_that_is_overruled_is_no_choice(tmp_path: Path) -> None:
    """The default in the code, which the flag overrules, changes nothing."""
    script = tmp_path / "train.py"
    script.write_text("max_length = 128\n")
    seen = Seen(flags={}, files=(), sources=(script,))
    plan = shorter(tmp_path, seen=seen).tune(plan="aggressive")
    assert {str(c.binding) for c in plan.quality if c.knob} == {"--max_length"}
    assert "stayed what it was" in why(plan, "train.py:max_length")
