"""What a user without a clone gets: the wheel, in an environment of its own."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command, **given):
    """Runs a command without a shell and returns what it printed; a failure shows all of it."""
    done = subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        **given,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    source = tmp_path_factory.mktemp("source")
    for name in ("dqn_lab", "rundefs"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, source)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def commands(wheel, tmp_path_factory):
    """The folder of commands of an environment that has the wheel, and the packages it needs.

    These are the running environment's, found through a path file: what its own path files bring
    (an editable dqn_lab) stays out of sight.
    """
    home = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", home)
    folder = home / ("Scripts" if os.name == "nt" else "bin")
    packages = run(folder / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    shared = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    Path(packages, "shared.pth").write_text("\n".join(shared) + "\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", folder / "python"]
    run(*pip, "install", "--no-deps", "--no-index", "--ignore-installed", wheel)
    return folder


def test_the_wheel_holds_every_module_and_rundef(wheel):
    held = set(zipfile.ZipFile(wheel).namelist())
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "dqn_lab").rglob("*.py")}
    rundefs = {f"dqn_lab/rundefs/{path.name}" for path in (ROOT / "rundefs").glob("*.py")}
    assert "dqn_lab/rundefs/catch.py" in rundefs
    assert modules | rundefs <= held


def test_catch_trains_by_name_from_an_empty_folder_without_a_shell(commands, tmp_path):
    empty, home = tmp_path / "empty", tmp_path / "home"
    empty.mkdir()
    home.mkdir()
    surroundings = os.environ | {"PATH": "", "HOME": str(home), "USERPROFILE": str(home)}
    surroundings.pop("PYTHONPATH", None)
    given = {"cwd": empty, "env": surroundings}
    where = run(commands / "python", "-c", "import dqn_lab; print(dqn_lab.__file__)", **given)
    assert Path(where.strip()).is_relative_to(commands.parent)
    small = ("replay_min_steps=200", "updates_per_epoch=5", "initial_states=8")
    settings = [word for setting in small for word in ("--set", setting)]
    run(commands / "dqn-train", "catch", "--updates", "5", *settings, **given)
    (directory,) = (path.parent for path in empty.glob("runs/*/config.json"))
    assert directory.name == "catch-seed0"
    assert len((directory / "progress.csv").read_text().splitlines()) == 2  # header and one epoch
    assert list(directory.glob("checkpoints/*/manifest.json"))
