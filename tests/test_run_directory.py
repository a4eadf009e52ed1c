"""Run directories: made whole or not at all, never on top of another run."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dqn_lab import run_directory as module
from dqn_lab.run_directory import RunDirectory, describe_software, git_commit, jsonable


def test_nothing_is_there_before_it_is_opened_and_a_run_after(tmp_path):
    directory = RunDirectory(tmp_path / "runs" / "toy")
    directory.check()
    assert not (tmp_path / "runs").exists()
    assert not directory.is_used
    assert directory.open({"arguments": {"seed": 1, "total_steps": math.inf}}) is None
    assert directory.is_used
    assert json.loads(directory.config.read_text()) == {"arguments": {"seed": 1, "total_steps": "inf"}}
    assert sorted(os.listdir(directory)) == [".lock", "config.json"]


def test_the_files_have_their_fixed_names(tmp_path):
    directory = RunDirectory(tmp_path)
    paths = (directory.config, directory.log, directory.progress)
    assert [one.name for one in paths] == ["config.json", "log.txt", "progress.csv"]
    assert (directory.checkpoints, directory.best) == (tmp_path / "checkpoints", tmp_path / "best")


def test_a_run_that_is_there_is_gone_on_with_and_nothing_of_it_is_lost(tmp_path):
    RunDirectory(tmp_path).open({"format": 2, "run": 1})
    (tmp_path / "progress.csv").write_text("kept")
    again = RunDirectory(tmp_path)
    assert again.continues
    assert again.read_config() == {"format": 2, "run": 1}
    assert again.open({"format": 2, "run": 2}) is None
    assert RunDirectory(tmp_path).read_config()["run"] == 2
    assert (tmp_path / "progress.csv").read_text() == "kept"
    assert not RunDirectory(tmp_path, fresh=True).continues
    assert not RunDirectory(tmp_path / "other").continues


@pytest.mark.parametrize(
    ("text", "format_"), [("", "unknown"), ("[1]", "unknown"), ("{}", "unknown"), ('{"format": 3}', "3")]
)
def test_a_configuration_that_is_no_runs_is_refused_naming_its_format(tmp_path, text, format_):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=f"config.json is of format 2: .*--fresh. Received: .*of format {format_}$"):
        RunDirectory(tmp_path).read_config()


def test_fresh_puts_the_old_run_aside_and_says_where(tmp_path):
    path = tmp_path / "toy"
    RunDirectory(path).open({"run": 1})
    (path / "progress.csv").write_text("kept")
    assert RunDirectory(path, fresh=True).open({"run": 2}) == tmp_path / "toy.old-1"
    assert RunDirectory(path, fresh=True).open({"run": 3}) == tmp_path / "toy.old-2"
    runs = [json.loads((one / "config.json").read_text())["run"] for one in sorted(tmp_path.iterdir())]
    assert runs == [3, 1, 2]
    assert (tmp_path / "toy.old-1" / "progress.csv").read_text() == "kept"


def test_fresh_leaves_a_directory_that_is_no_run_where_it_is(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    assert RunDirectory(tmp_path, fresh=True).open({}) is None
    assert sorted(os.listdir(tmp_path)) == [".lock", "config.json", "notes.txt"]


def test_a_place_inside_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="can't be in a file. Received: .*file/toy$"):
        RunDirectory(tmp_path / "file" / "toy").check()


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_built(tmp_path, monkeypatch):
    asked = []

    def access(path, mode):
        asked.append((Path(path), mode))
        return False

    monkeypatch.setattr(module.os, "access", access)
    with pytest.raises(PermissionError, match=f"must be writable. Received: {tmp_path}$"):
        RunDirectory(tmp_path / "runs" / "toy").check()
    assert asked == [(tmp_path, os.W_OK | os.X_OK)]


def test_a_failing_write_leaves_nothing_half_made(tmp_path, monkeypatch):
    path = tmp_path / "toy"

    def full(self, *_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        RunDirectory(path).open({})
    assert not path.exists()


def test_what_json_cannot_say_is_written_as_text():
    value = {"a": (1, 2), 3: math.inf, "b": np.float32(0.5), "c": Path("x"), "d": [None, True, -math.inf]}
    told = jsonable(value)
    assert told == {"a": [1, 2], "3": "inf", "b": 0.5, "c": "x", "d": [None, True, "-inf"]}
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_the_software_is_described_without_importing_it():
    code = (
        "from dqn_lab.run_directory import describe_software as d; import sys; v = d();"
        "print(sorted(v), 'tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in ("python", "system", "tensorflow", "keras", "gymnasium", "ale-py", "numpy"):
        assert f"'{name}'" in done.stdout
    assert done.stdout.endswith("False\n")
    assert describe_software()["numpy"] == np.__version__


def test_a_missing_package_has_no_version(monkeypatch):
    monkeypatch.setattr(module, "_VERSIONED", ("numpy", "no-such-package-here"))
    assert set(describe_software()) == {"python", "system", "numpy"}


def git(folder, *words):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_commit_is_that_of_the_clone_and_says_when_files_differ(tmp_path):
    package = tmp_path / "dqn_lab"
    package.mkdir()
    assert git_commit(package) is None  # no clone
    (package / "a.py").write_text("a")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "a")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert git_commit(package) == commit
    (package / "a.py").write_text("b")
    assert git_commit(package) == commit + "-dirty"
    inside = package / "site-packages" / "dqn_lab"
    inside.mkdir(parents=True)
    assert git_commit(inside) is None  # somebody else's repository around an environment


def test_without_git_there_is_no_commit(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert git_commit() is None


def test_a_directory_in_which_a_run_goes_on_is_refused_even_with_fresh(tmp_path):
    running = RunDirectory(tmp_path / "toy")
    running.open({})
    with pytest.raises(FileExistsError, match="a run is going on in this directory: stop it, or name another"):
        RunDirectory(tmp_path / "toy", fresh=True).check()
    running.release()
    assert RunDirectory(tmp_path / "toy", fresh=True).open({}) == tmp_path / "toy.old-1"


def test_a_run_that_ended_without_a_word_leaves_no_lock(tmp_path):
    code = "from dqn_lab.run_directory import RunDirectory; import os; RunDirectory('toy').open({}); os._exit(9)"
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == 9
    assert RunDirectory(tmp_path / "toy", fresh=True).open({}) == tmp_path / "toy.old-1"


def test_what_saved_nothing_is_taken_away_and_nothing_else(tmp_path):
    directory = RunDirectory(tmp_path / "toy")
    directory.open({})
    directory.log.write_text("line")
    (directory.path / "events.out.tfevents.1").write_text("")
    directory.discard()
    assert not directory.path.exists()

    directory.open({})
    (directory.path / "notes.txt").write_text("mine")
    directory.discard()
    assert [one.name for one in directory.path.iterdir()] == ["notes.txt"]


def test_the_current_directory_has_a_name_to_be_put_aside_by(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    assert RunDirectory(".").path == home


def test_checkpoints_without_a_configuration_are_neither_continued_nor_begun_over(tmp_path):
    path = tmp_path / "toy"
    (path / "checkpoints" / "120").mkdir(parents=True)
    with pytest.raises(
        FileExistsError, match="has checkpoints and no config.json: put that back, .*Received: run_dir="
    ):
        RunDirectory(path).open({})
    assert os.listdir(path) == ["checkpoints"]
    assert RunDirectory(path, fresh=True).open({}) == tmp_path / "toy.old-1"
    assert os.listdir(tmp_path / "toy.old-1" / "checkpoints") == ["120"]


@pytest.mark.parametrize("name", ["checkpoints", "best", "replay", "weights", "config.json", "progress.csv", "log.txt"])
def test_files_in_place_of_folders_and_the_other_way_round_are_refused_by_name(tmp_path, name):
    place = tmp_path / name
    if "." in name:
        place.mkdir()
    else:
        place.write_text("mine")
    with pytest.raises(NotADirectoryError, match=f"has folders .* and files beside them. Received: .*{name}$"):
        RunDirectory(tmp_path).open({})
    assert os.listdir(tmp_path) == [name]


def test_a_folder_in_it_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    (tmp_path / "replay").mkdir()
    monkeypatch.setattr(module.os, "access", lambda path, mode: Path(path).name != "replay")
    with pytest.raises(PermissionError, match="must be writable. Received: .*replay$"):
        RunDirectory(tmp_path).check()


@pytest.mark.posix
def test_a_link_is_followed_when_its_run_is_put_aside_and_refused_when_it_leads_nowhere(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "disk" / "toy")
    with pytest.raises(NotADirectoryError, match="can't be a link to nothing. Received: run_dir=.*link$"):
        RunDirectory(link).check()
    (tmp_path / "disk" / "toy").mkdir(parents=True)
    first = RunDirectory(link)
    first.open({"run": 1})
    first.release()
    assert RunDirectory(link, fresh=True).open({"run": 2}) == tmp_path / "disk" / "toy.old-1"
    assert link.is_symlink()
    assert json.loads((tmp_path / "disk" / "toy" / "config.json").read_text()) == {"run": 2}


def test_what_cannot_be_put_aside_is_told_with_a_way_out(tmp_path, monkeypatch):
    first = RunDirectory(tmp_path / "toy")
    first.open({})
    first.release()

    def busy(self, target):
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(Path, "rename", busy)
    with pytest.raises(OSError, match=r"can't be put aside \(Device or resource busy\): name another directory with"):
        RunDirectory(tmp_path / "toy", fresh=True).open({})


def test_what_was_there_before_the_run_stays_when_it_is_taken_away(tmp_path):
    for name in ("progress.csv", "log.txt", "events.out.tfevents.1.me"):
        (tmp_path / name).write_text("mine")
    directory = RunDirectory(tmp_path)
    directory.open({})
    (tmp_path / "events.out.tfevents.2.run").write_text("its")
    directory.discard()
    assert sorted(os.listdir(tmp_path)) == ["events.out.tfevents.1.me", "log.txt", "progress.csv"]


def test_the_lock_is_held_until_all_else_is_taken_away(tmp_path, monkeypatch):
    directory = RunDirectory(tmp_path / "toy")
    directory.open({})
    left, release = [], RunDirectory.release
    monkeypatch.setattr(RunDirectory, "release", lambda self: (left.append(os.listdir(self.path)), release(self)))
    directory.discard()
    assert len(left) == 1
    assert set(left[0]) <= {".lock"}


def test_arrays_and_numbers_of_numpy_are_written_as_lists_and_numbers():
    told = jsonable({"a": np.arange(3), "b": np.int64(4), "c": [np.bool_(True)]})
    assert told == {"a": [0, 1, 2], "b": 4, "c": [True]}
