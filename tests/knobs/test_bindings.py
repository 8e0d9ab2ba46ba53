"""Settings are found where people make them, and changed there without touching another byte."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from upshift.command import understand
from upshift.errors import UsageError
from upshift.knobs import code, config_file
from upshift.knobs.binding import Flag, Override
from upshift.knobs.catalogue import BY_NAME, GRAD_ACCUM
from upshift.knobs.change import Change
from upshift.knobs.discover import Seen, candidates
from upshift.knobs.spoken import parse

SOURCE = '''"""Größe."""
BATCH_SIZE, EPOCHS = 8, 3  # names in a row
lr: float = 1e-3


class Config:
    batch_size: int = 4 * 2
    name = "é"


def main(batch_size=16, *, accum: int = 2):
    config = dict(batch_size=32)
    config["accum"] = 4
    settings = {"batch_size": 64}
    parser.add_argument("--batch-size", "-b", type=int, default=128)
    loader = DataLoader(data, batch_size=256)
    other = DataLoader(data, 512, True, num_workers=2)
    run(data, 1024)
    flags.DEFINE_integer("b", 2048, "by absl")


def run(data, batch: int = typer.Option(4096, "--batch")):
    pass


class Settings(BaseSettings):
    batch_size: int = Field(8192, description="pydantic's")
    accum = int(os.environ.get("ACCUM", "16384"))
'''

YAML = """# a comment
train:
    batch_size: 8     # samples
    names: [a, "b"]
    nested: {deep: 3}
lr: 1e-3
"""


def test_every_place_in_code_is_found_and_changed_alone() -> None:
    found = {(s.name, s.value) for s in code.sites(SOURCE)}
    assert {
        ("BATCH_SIZE", 8),
        ("EPOCHS", 3),
        ("lr", 1e-3),
        ("Config.batch_size", 8),
        ("main.batch_size", 16),
        ("main.accum", 2),
        ("main.batch_size", 32),
        ("main.accum", 4),
        ("main.batch_size", 64),
        ("main.batch-size", 128),
        ("main.batch_size", 256),
        ("main.batch_size", 512),
        ("main.batch", 1024),
        ("main.b", 2048),
        ("run.batch", 4096),
        ("Settings.batch_size", 8192),
        ("Settings.ACCUM", 16384),
    } <= found
    for site in code.sites(SOURCE):
        changed = code.with_value(SOURCE, site, 77)
        assert changed.count("77") == SOURCE.count("77") + 1
        assert len(changed.splitlines()) == len(SOURCE.splitlines())
        again = next(s for s in code.sites(changed) if s.start == site.start)
        assert again.value == 77


def test_yaml_keeps_every_other_byte() -> None:
    entries = {e.key: e for e in config_file.entries(Path("c.yaml"), YAML)}
    assert entries["train.batch_size"].value == 8
    assert entries["train.nested.deep"].value == 3
    assert config_file.with_value(YAML, entries["train.batch_size"], 16) == YAML.replace(
        "size: 8 ", "size: 16 "
    )
    assert config_file.with_value(YAML, entries["train.names.1"], "c") == YAML.replace('"b"', '"c"')


@pytest.mark.parametrize(
    ("name", "text", "key", "after"),
    [
        (
            "c.json",
            '{"train": {"batch_size": 8, "x": [1]}}',
            "train.batch_size",
            '{"train": {"batch_size": 16, "x": [1]}}',
        ),
        ("c.toml", "[train]\nbatch_size = 8 # n\n", "train.batch_size", "[train]\nbatch_size = 16 # n\n"),
        ("c.ini", "[train]\nbatch_size: 8\n", "train.batch_size", "[train]\nbatch_size: 16\n"),
        ("c.cfg", "batch_size=8\n", "batch_size", "batch_size=16\n"),
        ("c.gin", "train.batch_size = 8\n", "train.batch_size", "train.batch_size = 16\n"),
    ],
)
def test_other_files(name: str, text: str, key: str, after: str) -> None:
    entry = next(e for e in config_file.entries(Path(name), text) if e.key == key)
    assert config_file.with_value(text, entry, 16) == after


def change(folder: Path, *argv: str) -> Change:
    return Change(command=understand(argv, folder))


@pytest.mark.parametrize(
    ("argv", "bind", "after"),
    [
        (("--bs", "4"), "--bs", ("--bs", "8")),
        (("--bs=4",), "--bs", ("--bs=8",)),
        ((), "--bs", ("--bs", "8")),
        (("train.bs=4",), "train.bs=", ("train.bs=8",)),
        (("+train.bs=4",), "train.bs=", ("+train.bs=8",)),
        ((), "train.bs=", ("train.bs=8",)),
    ],
)
def test_on_the_command_line(
    tmp_path: Path, argv: tuple[str, ...], bind: str, after: tuple[str, ...]
) -> None:
    (tmp_path / "train.py").write_text("")
    now = change(tmp_path, sys.executable, "train.py", *argv)
    assert parse(bind, now.command).apply(now, 8).command.argv[2:] == after


def test_in_a_shell_script(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text('python train.py \\\n  --bs 4 \\\n  --bs-eval 4 --out "x y"\n')
    now = change(tmp_path, "bash", "run.sh")
    done = parse("--bs", now.command).apply(now, 8)
    assert done.files[script.resolve()] == 'python train.py \\\n  --bs 8 \\\n  --bs-eval 4 --out "x y"\n'
    assert done.command.argv == ("bash", "run.sh")
    with pytest.raises(UsageError, match="does not pass its arguments on"):
        parse("--other", now.command).apply(now, 8)
    with pytest.raises(UsageError, match="does not pass its arguments on"):
        parse("train.other=", now.command).apply(now, 8)


def test_bad_bindings_say_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("A = 1\nA = 2\n")
    now = change(tmp_path, sys.executable, "train.py")
    with pytest.raises(UsageError, match="2 values called 'A'") as error:
        parse("train.py:A", now.command)
    assert "line 1" in (error.value.hint or "")
    assert str(parse("train.py:2", now.command)) == "train.py:A"
    with pytest.raises(UsageError, match="does not exist"):
        parse("nothing.yaml:a", now.command)


def test_an_unusual_name_is_found_by_its_value(tmp_path: Path) -> None:
    """joeynmt calls it batch_multiplier; 1 would be anywhere, and a name that fits comes first."""
    path = tmp_path / "c.yaml"
    path.write_text("training:\n  batch_size: 6\n  batch_multiplier: 10\n  epochs: 10\n")
    (tmp_path / "train.py").write_text("")
    now = Change(command=understand([sys.executable, "train.py", "c.yaml"], tmp_path))
    found = Seen(flags={}, files=(path,), sources=())
    assert [str(c.binding) for c in candidates(GRAD_ACCUM, 10, now, found)] == [
        "c.yaml:training.batch_multiplier"
    ]
    assert candidates(GRAD_ACCUM, 1, now, found) == []
    path.write_text(path.read_text() + "  grad_acc_step: 10\n")
    assert [str(c.binding) for c in candidates(GRAD_ACCUM, 10, now, found)] == [
        "c.yaml:training.grad_acc_step"
    ]


def test_a_switch_with_a_value_keeps_its_spelling(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    argv = [
        sys.executable,
        "train.py",
        "--compile=False",
        "--fused",
        "false",
        "x.amp=False",
        "--fp16",
        "--lr",
        "1",
    ]
    now = Change(command=understand(argv, tmp_path))
    changed = now
    for binding in (Flag("--compile"), Flag("--fused"), Override("x.amp")):
        assert binding.now(now) is False
        changed = binding.apply(changed, True)
    assert changed.command.argv[2:] == (
        "--compile=True",
        "--fused",
        "true",
        "x.amp=True",
        "--fp16",
        "--lr",
        "1",
    )
    assert Flag("--fp16").now(now) is None
    with pytest.raises(UsageError, match="without a value"):
        Flag("--fp16").apply(now, True)


def test_a_place_is_no_name_where_two_are_called_alike() -> None:
    twice = "def load(batch_size): ...\ndef load(size): ...\nload(8)\n"
    assert not code.sites(twice)
    assert [s.name for s in code.sites("def load(size, batch_size): ...\nload(*more, 8)\nload(4, 8)\n")] == [
        "size",
        "batch_size",
    ]


def test_a_variable_the_user_has_set_is_not_left_to_its_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.write_text('accumulation = int(os.environ.get("GRAD_ACCUM", 4))\n')
    seen = Seen(flags={}, files=(), sources=(script,))
    now = change(tmp_path, sys.executable, "train.py")
    assert [c.value for c in candidates(GRAD_ACCUM, None, now, seen)] == [4]
    monkeypatch.setenv("GRAD_ACCUM", "8")
    (found,) = candidates(GRAD_ACCUM, 8, now, seen)
    assert (str(found.binding), found.value) == ("$GRAD_ACCUM", 8)


def test_hydras_own_way_comes_before_the_file_it_was_read_from(tmp_path: Path) -> None:
    config = tmp_path / "conf" / "train.yaml"
    config.parent.mkdir()
    config.write_text("accumulate: 4\n")
    (tmp_path / "train.py").write_text("")
    seen = Seen(flags={}, files=(config,), sources=(), overrides={"train.accumulate": 4})
    now = change(tmp_path, sys.executable, "train.py")
    assert [str(c.binding) for c in candidates(GRAD_ACCUM, 4, now, seen)] == [
        "train.accumulate=",
        "train.yaml:accumulate",
    ]


def test_what_hydra_makes_is_told_what_its_config_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    now = change(tmp_path, sys.executable, "train.py")
    made = {"model.optimizer._target_": "torch.optim.AdamW", "model.net._target_": "models.Net"}
    seen = Seen(flags={}, files=(), sources=(), overrides=made)
    fused = BY_NAME["fused_optimizer"]
    (found,) = candidates(fused, None, now, seen)
    once = found.binding.apply(now, True)
    assert once.command.argv[2:] == ("+model.optimizer.fused=True",)
    assert found.binding.apply(once, False).command.argv[2:] == ("+model.optimizer.fused=False",)
    told = Seen(flags={}, files=(), sources=(), overrides={**made, "model.optimizer.fused": True})
    assert [str(c.binding) for c in candidates(fused, None, now, told)] == ["model.optimizer.fused="]


@pytest.mark.parametrize(
    ("knob", "now", "value", "said"),
    [
        ("workers", 0, 2, "made beside"),
        ("workers", 2, 0, "handing batches over"),
        ("workers", 4, 2, "handing batches over"),
        ("precision", "bfloat16", "float32", "slower in lower"),
        ("precision", "no", "bf16", "really faster"),
        ("checkpointing", True, False, "recomputed"),
    ],
)
def test_the_reason_is_that_of_the_direction(knob: str, now: object, value: object, said: str) -> None:
    assert said in BY_NAME[knob].reason(now, value)
