"""The disk that a run will need."""

import shutil
from collections import namedtuple

import pytest

from dqn_lab.disk import check_disk, held_bytes, run_bytes

Usage = namedtuple("Usage", "total used free")


def test_what_a_run_writes_is_added_up():
    # 2 kept, 1 being written, the best and its successor: 5 x 10 agents; 8 x (100 + 2 x 30) of replay; 3 x 7 of weights
    given = {"agent": 10, "network": 7, "row": 8.0, "rows": 100, "keep": 2, "weights": 3}
    assert run_bytes(**given, period=30) == 50 + 1280 + 21
    assert run_bytes(**given, period=1000) == 50 + 2400 + 21  # no more than the replay holds each time
    assert run_bytes(agent=10, network=7, keep=2, weights=0) == 50  # without a replay


def test_what_is_there_already_is_counted_and_what_is_not_is_nothing(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "x").write_bytes(b"123")
    (tmp_path / "a" / "b" / "y").write_bytes(b"4567")
    assert held_bytes(tmp_path / "a", tmp_path / "missing") == 7
    assert held_bytes() == 0


def test_a_disk_that_is_too_small_is_refused_with_both_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(10 * 2**30, 8 * 2**30, 2 * 2**30))
    assert check_disk(tmp_path, 2 * 2**30, 0) == "up to about 2.00 GiB, 2.00 GiB are free"
    assert check_disk(tmp_path, 3 * 2**30, 2**30) == "up to about 3.00 GiB, 2.00 GiB are free"
    with pytest.raises(OSError, match=r"need up to about 3.00 GiB, 2.00 GiB are free: .*--run-dir.*Received: run_dir="):
        check_disk(tmp_path, 3 * 2**30, 2**30 - 1)
    with pytest.raises(OSError, match="or lower keep. Received"):
        check_disk(tmp_path, 3 * 2**30, 0)
    with pytest.raises(OSError, match="or lower replay_capacity_steps or keep. Received"):
        check_disk(tmp_path, 3 * 2**30, 0, lower=("replay_capacity_steps", "keep"))
