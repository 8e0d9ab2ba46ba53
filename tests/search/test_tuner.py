"""Whole tunings, played: what is bound, what is tried, what is refused, what is claimed."""

from __future__ import annotations

from pathlib import Path

import pytest
from search.world import World, overhead

from upshift.knobs.binding import FileKey, Flag
from upshift.knobs.discover import Seen
from upshift.plan import Setting, Unproven
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


def test_the_budget_ends_the_search(tmp_path: Path) -> None:
    plan = World(folder=tmp_path).tune(budget_seconds=0.05)
    assert plan.settings == ()
    assert "--budget" in why(plan, "budget")
