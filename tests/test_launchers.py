"""However the training is started, the agent gets in; and only where training happens does it wake."""

from __future__ import annotations

import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from truth import PROGRAMS
from upshift_cli import profile

SCRIPT = str(PROGRAMS / "accumulation.py")
BIN = Path(sysconfig.get_path("scripts"))


def check(command: list[str], cwd: Path, *options: str, **extra: str) -> dict:
    run = profile(command, "--steps", "6", *options, cwd=cwd, **extra)
    assert run.code == 0, run.stderr
    assert (run.document["micro_batch"], run.document["grad_accum"]) == (6, 5)
    return run.document


@pytest.mark.parametrize("flags", (["-I"], ["-E"], ["-u", "-W", "ignore"], ["-X", "dev"]))
def test_interpreter_flags(flags: list[str], tmp_path: Path) -> None:
    check([sys.executable, *flags, SCRIPT], tmp_path)


def test_bash_c(tmp_path: Path) -> None:
    check(["bash", "-c", f"cd . && {shlex.quote(sys.executable)} {SCRIPT}"], tmp_path)


def test_a_script_that_overwrites_pythonpath(tmp_path: Path) -> None:
    """The .pth planted for this run alone brings the agent in."""
    (tmp_path / "run.sh").write_text(f"export PYTHONPATH=.\npython {SCRIPT}\n")
    check(["bash", "run.sh"], tmp_path, PATH=f"{BIN}:/usr/bin:/bin")


def test_console_script(tmp_path: Path) -> None:
    script = tmp_path / "train-it"
    script.write_text(f"#!{sys.executable}\nimport runpy\nrunpy.run_path({SCRIPT!r}, run_name='__main__')\n")
    script.chmod(0o755)
    check([str(script)], tmp_path)


def test_torchrun_and_accelerate(tmp_path: Path) -> None:
    ddp = str(PROGRAMS / "ddp_torchrun.py")
    run = profile([str(BIN / "torchrun"), "--nproc_per_node", "2", ddp], "--steps", "6", cwd=tmp_path)
    assert run.code == 0, run.stderr
    assert run.document["world_size"] == 2
    launched = str(PROGRAMS / "accelerate_accumulate.py")
    run = profile(
        [str(BIN / "accelerate"), "launch", "--cpu", "--num_processes", "1", launched],
        "--steps",
        "6",
        cwd=tmp_path,
    )
    assert run.code == 0, run.stderr


def test_another_virtualenvs_python(tmp_path: Path) -> None:
    """upshift lives in one environment, the training in another."""
    venv = tmp_path / "theirs"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    site = next((venv / "lib").glob("python3*/site-packages"))
    (site / "ours.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    (tmp_path / "work").mkdir()
    check([str(venv / "bin" / "python"), SCRIPT], tmp_path / "work")


def test_the_users_own_sitecustomize_runs(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import builtins\nbuiltins.MINE = 'here'\n")
    (tmp_path / "train.py").write_text(
        "import sitecustomize\nassert MINE == 'here' and not hasattr(sitecustomize, '_arm')\n"
        f"import runpy\nrunpy.run_path({SCRIPT!r}, run_name='__main__')\n"
    )
    check([sys.executable, "train.py"], tmp_path, PYTHONPATH=str(tmp_path / "site"))


def test_relative_command_from_the_scripts_folder(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(Path(SCRIPT).read_text())
    check([sys.executable, "train.py"], tmp_path)
