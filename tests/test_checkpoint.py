"""Checkpoints: complete when the manifest is there, and the one before stays until then."""

import errno
import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from dqn_lab import checkpoint as module
from dqn_lab.checkpoint import (
    check_checkpoint,
    complete_checkpoints,
    find_complete,
    keep_newest,
    put_aside,
    read_agent,
    read_manifest,
    recover,
    recover_all,
    save_agent,
    sealed,
    write_checkpoint,
)


def write(path, content=b"weights", **counters):
    return write_checkpoint(path, lambda part: (part / "a.bin").write_bytes(content), counters)


def test_a_checkpoint_has_its_files_and_a_manifest_of_them(tmp_path):
    path = write(tmp_path / "checkpoints" / "120", steps=120, updates=5)
    assert sorted(os.listdir(path)) == ["a.bin", "manifest.json"]
    digest = "9a129038d9a00aed0cf6a7ea059ca50a813449061ab87848cf1a13eafdf33b2c"  # by sha256sum
    assert check_checkpoint(path) == sealed(
        {"format": 2, "counters": {"steps": 120, "updates": 5}, "files": {"a.bin": digest}}
    )
    assert os.listdir(tmp_path / "checkpoints") == ["120"]


def test_the_manifest_is_written_last(tmp_path, monkeypatch):
    tape = []
    monkeypatch.setattr(module, "flush", lambda path: tape.append(("flush", path.name)))
    take_place = module._take_place

    def record(part, path):
        tape.append(("rename", sorted(os.listdir(part))))
        take_place(part, path)

    monkeypatch.setattr(module, "_take_place", record)
    write(tmp_path / "7")
    assert tape == [
        ("flush", "a.bin"),
        ("flush", "manifest.json"),
        ("flush", ".7.part"),
        ("rename", ["a.bin", "manifest.json"]),
        ("flush", tmp_path.name),
    ]


def test_a_new_one_takes_the_place_of_the_old(tmp_path):
    write(tmp_path / "best", b"old", steps=1)
    write(tmp_path / "best", b"new", steps=2)
    assert (tmp_path / "best" / "a.bin").read_bytes() == b"new"
    assert check_checkpoint(tmp_path / "best")["counters"] == {"steps": 2}
    assert os.listdir(tmp_path) == ["best"]


@pytest.mark.posix
def test_a_full_disk_is_said_and_leaves_the_old_one(tmp_path):
    write(tmp_path / "best", b"old")

    def half(part):
        (part / "a.bin").write_bytes(b"ne")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left on device"):
        write_checkpoint(tmp_path / "best", half, {})
    assert (tmp_path / "best" / "a.bin").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["best"]
    check_checkpoint(tmp_path / "best")


KILLED = """
import os, signal, sys
from pathlib import Path
from dqn_lab.checkpoint import write_checkpoint

def half(part):
    (part / "a.bin").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)

write_checkpoint(Path(sys.argv[1]), half, {})
"""


def test_a_killed_save_is_no_checkpoint_and_is_cleared_away(tmp_path):
    write(tmp_path / "100", steps=100)
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "200")], check=False)
    assert sorted(os.listdir(tmp_path)) == [".200.part", "100"]
    assert complete_checkpoints(tmp_path) == [tmp_path / "100"]
    keep_newest(tmp_path, 2)
    assert os.listdir(tmp_path) == ["100"]


# A save that replaces one is killed at each of its steps: before and after each change of the folder.
KILLED_WITHIN = """
import os, signal, sys
from pathlib import Path
from dqn_lab import checkpoint

calls, last = 0, int(sys.argv[2])
def dying(function):
    def call(*arguments, **named):
        global calls
        for when in "before", "after":
            if calls == last:
                os.kill(os.getpid(), signal.SIGKILL)
            calls += 1
            if when == "before":
                result = function(*arguments, **named)
        return result
    return call

Path.rename, Path.mkdir, Path.write_text = dying(Path.rename), dying(Path.mkdir), dying(Path.write_text)
checkpoint.shutil.rmtree, os.fsync = dying(checkpoint.shutil.rmtree), dying(os.fsync)
checkpoint.write_checkpoint(Path(sys.argv[1]), lambda part: (part / "a.bin").write_bytes(b"new"), {})
print(calls)
"""


@pytest.mark.posix
@pytest.mark.case("B108")
def test_a_kill_at_any_moment_of_a_save_leaves_the_old_or_the_new_one(tmp_path):
    def attempt(last):
        path = tmp_path / str(last) / "7"
        write(path, b"old")
        command = [sys.executable, "-c", KILLED_WITHIN, str(path), str(last)]
        return path, subprocess.run(command, check=False, capture_output=True, text=True)

    path, done = attempt(1000)
    moments = int(done.stdout)
    assert moments >= 14
    found = set()
    for last in range(moments):
        path, done = attempt(last)
        assert done.returncode == -9
        whole = find_complete(path)  # what a reader sees meanwhile
        check_checkpoint(whole)
        recover_all(path.parent)
        assert os.listdir(path.parent) == ["7"]
        assert check_checkpoint(path) == check_checkpoint(path)
        found.add((path / "a.bin").read_bytes())
    assert found == {b"old", b"new"}


def test_recovering_where_nothing_happened_changes_nothing(tmp_path):
    path = write(tmp_path / "best", b"old")
    recover(path)
    recover_all(tmp_path)
    recover_all(tmp_path / "nowhere")
    assert os.listdir(tmp_path) == ["best"]
    assert find_complete(tmp_path / "other") is None


def test_what_could_not_be_renamed_into_its_place_leaves_the_old_one_there(tmp_path, monkeypatch):
    path, rename = write(tmp_path / "7", b"old"), type(tmp_path).rename

    def refuse(self, target):
        if self.name.endswith(".part"):
            raise OSError(errno.EACCES, "Permission denied")
        return rename(self, target)

    monkeypatch.setattr(type(tmp_path), "rename", refuse)
    with pytest.raises(OSError, match="Permission denied"):
        write(path, b"new")
    assert os.listdir(tmp_path) == ["7"]
    assert (path / "a.bin").read_bytes() == b"old"


def test_what_is_put_aside_counts_no_more_and_is_never_overwritten(tmp_path):
    places = [put_aside(write(tmp_path / "7", content)).name for content in (b"1", b"2", b"3")]
    assert places == ["7.broken", "7.broken-2", "7.broken-3"]
    assert complete_checkpoints(tmp_path) == []
    keep_newest(tmp_path, 1)
    assert [(tmp_path / place / "a.bin").read_bytes() for place in places] == [b"1", b"2", b"3"]


def test_a_manifest_that_was_changed_anywhere_is_refused(tmp_path):
    path = write(tmp_path / "7", updates=15)
    manifest = path / "manifest.json"
    content = manifest.read_bytes()
    read = json.loads(content)
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 4
        manifest.write_bytes(changed)
        try:
            assert json.loads(changed) == read  # white space
        except (AssertionError, ValueError):
            with pytest.raises(ValueError, match=r"isn't the file that was saved|reads checkpoints of format 2"):
                check_checkpoint(path)


def test_the_manifest_takes_further_facts(tmp_path):
    write_checkpoint(tmp_path / "7", lambda part: None, {}, replay=[{"file": "1.npz"}])
    assert read_manifest(tmp_path / "7")["replay"] == [{"file": "1.npz"}]


def test_the_newest_are_those_with_most_steps_and_stay(tmp_path):
    for steps in (90, 1000, 200):
        write(tmp_path / str(steps))
    (tmp_path / "2000").mkdir()  # incomplete
    (tmp_path / "notes").mkdir()
    newest = [tmp_path / "90", tmp_path / "200", tmp_path / "1000"]
    assert complete_checkpoints(tmp_path) == newest
    keep_newest(tmp_path, 2)
    assert complete_checkpoints(tmp_path) == newest[1:]
    assert complete_checkpoints(tmp_path / "nowhere") == []


def test_what_is_no_whole_checkpoint_is_refused(tmp_path):
    path = write(tmp_path / "5")
    (path / "a.bin").write_bytes(b"weightz")
    with pytest.raises(ValueError, match="a.bin isn't the file that was saved. Received: .*5$"):
        check_checkpoint(path)
    (path / "a.bin").unlink()
    with pytest.raises(ValueError, match="a.bin isn't the file that was saved. Received: .*5$"):
        check_checkpoint(path)
    (path / "manifest.json").write_text(json.dumps({"format": 3, "counters": {}, "files": {}}))
    with pytest.raises(ValueError, match="reads checkpoints of format 2. Received: .*5 of format 3$"):
        check_checkpoint(path)
    (path / "manifest.json").unlink()
    with pytest.raises(ValueError, match="a checkpoint has a manifest.json. Received: .*5$"):
        read_manifest(path)


def test_an_agent_comes_back_with_its_optimizer(tmp_path):
    agent = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    agent.compile(optimizer="adam", loss="mse")
    agent.train_on_batch(np.ones((4, 3), "float32"), np.ones((4, 2), "float32"))
    save_agent(tmp_path / "4", agent, {"updates": 1})
    loaded = read_agent(tmp_path / "4")
    assert int(loaded.optimizer.iterations.numpy()) == 1
    for one, other in zip(agent.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    slots = zip(agent.optimizer.variables, loaded.optimizer.variables, strict=True)
    assert all(np.array_equal(one.numpy(), other.numpy()) for one, other in slots)


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{}", '{"format": 2}', '{"format": "2", "counters": {}, "files": {}}', "\xff"]
)
def test_a_damaged_manifest_is_told_in_a_line(tmp_path, text):
    (tmp_path / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"^manifest.json isn't the file that was saved. Received: "):
        read_agent(tmp_path)


def test_a_checkpoint_without_an_agent_is_told_in_a_line(tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps(sealed({"format": 2, "counters": {}, "files": {}})))
    with pytest.raises(ValueError, match=r"^a checkpoint has an agent.keras. Received: "):
        read_agent(tmp_path)


def test_what_a_kill_left_of_an_old_one_is_removed_by_the_next_save(tmp_path):
    for steps in (90, 200, 300):
        write(tmp_path / str(steps))
    (tmp_path / "90" / "manifest.json").unlink()  # as `keep_newest` begins to remove one
    (tmp_path / "400").mkdir()  # newer: nobody knows what it was
    keep_newest(tmp_path, 2)
    assert sorted(os.listdir(tmp_path)) == ["200", "300", "400"]
