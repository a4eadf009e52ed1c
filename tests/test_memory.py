"""Memory: what is left is the least of all limits, and what doesn't fit is refused with figures."""

import subprocess
import sys

import psutil
import pytest

from dqn_lab import memory
from dqn_lab.memory import available_memory_bytes, check_memory, check_reserve, describe_bytes

GIB = 2**30
FRAME = 84 * 84  # bytes


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1_000_000 * FRAME, "6.57 GiB"),
        (20_000_000, "0.02 GiB"),
        (FRAME, "6.89 KiB"),
        (300 * FRAME, "2.02 MiB"),
        (7, "7 B"),
        (0, "0 B"),
    ],
)
def test_bytes_are_described_in_the_largest_unit_that_shows_them(count, text):
    assert describe_bytes(count) == text


@pytest.mark.case("B014")
def test_a_replay_that_does_not_fit_is_refused_with_both_figures_and_one_that_fits(monkeypatch):
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: GIB)
    with pytest.raises(ValueError) as error:
        check_memory(1_000_000 * FRAME, 1_000_000, FRAME)
    assert str(error.value) == (
        "The replay must fit into memory: it needs 6.57 GiB, and 1.00 GiB are available; "
        "replay_capacity_steps=130_000 would fit. Received: replay_capacity_steps=1000000"
    )
    check_memory(130_000 * FRAME, 130_000, FRAME)


def test_a_tenth_of_the_available_memory_stays_free_in_the_proposal(monkeypatch):
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 1_000)
    with pytest.raises(ValueError, match="replay_capacity_steps=80 would fit"):
        check_memory(2_000 + 100, 200, 10)  # 100 B whatever the capacity: (900 - 100) / 10


def test_where_nothing_fits_nothing_is_proposed(monkeypatch):
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 1_000)
    with pytest.raises(ValueError, match="no replay_capacity_steps would fit"):
        check_memory(5_000, 1, 5_000)


def test_what_fits_exactly_is_not_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 1_000)
    assert check_memory(1_000, 10, 100) is None
    with pytest.raises(ValueError, match="must fit into memory"):
        check_memory(1_001, 10, 100)


def _group(folder, limit, usage, stat="", names=("memory.max", "memory.current")):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{usage}\n")
    (folder / "memory.stat").write_text(stat)


def _remaining(tmp_path, membership):
    (tmp_path / "membership").write_text(membership)
    return list(memory._cgroup_remaining_bytes(tmp_path / "cgroup", tmp_path / "membership"))


def test_every_group_of_cgroup_v2_counts_and_file_cache_is_free(tmp_path):
    root = tmp_path / "cgroup"
    _group(root / "user" / "job", "max", 500)
    _group(root / "user", 3_000, 1_200, "anon 900\ninactive_file 200\n")
    assert _remaining(tmp_path, "0::/user/job\n") == [2_000]


def test_the_limit_of_a_container_is_found_at_the_top_of_its_mount(tmp_path):
    _group(tmp_path / "cgroup", 1_000, 400)
    assert _remaining(tmp_path, "0::/docker/0123\n") == [600]


def test_cgroup_v1_counts_too(tmp_path):
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
    _group(tmp_path / "cgroup/memory/job", 900, 300, "total_inactive_file 50\n", names)
    membership = "5:cpu,cpuacct:/job\n4:memory:/job\n1:name=systemd:/job\n"
    assert _remaining(tmp_path, membership) == [650]


def test_a_group_over_its_limit_leaves_nothing(tmp_path):
    _group(tmp_path / "cgroup", 1_000, 1_400)
    assert _remaining(tmp_path, "0::/\n") == [0]


def test_a_group_without_statistics_still_limits(tmp_path):
    _group(tmp_path / "cgroup", 1_000, 400)
    (tmp_path / "cgroup" / "memory.stat").unlink()
    assert _remaining(tmp_path, "0::/\n") == [600]


def test_a_system_without_control_groups_has_no_such_limit(tmp_path):
    assert list(memory._cgroup_remaining_bytes(tmp_path, tmp_path / "missing")) == []


def test_the_least_of_machine_and_groups_is_available(monkeypatch):
    monkeypatch.setattr(memory, "_cgroup_remaining_bytes", lambda: iter([3 * GIB, 2 * GIB]))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: _Machine(4 * GIB))
    assert available_memory_bytes() == 2 * GIB
    monkeypatch.setattr(psutil, "virtual_memory", lambda: _Machine(GIB))
    assert available_memory_bytes() == GIB


class _Machine:
    def __init__(self, available):
        self.available = available


def test_this_machine_has_memory():
    assert 0 < available_memory_bytes() <= psutil.virtual_memory().total


def test_the_numpy_only_modules_import_no_tensorflow():
    script = (
        "import sys, dqn_lab.memory, dqn_lab.schedules, dqn_lab.exploration, dqn_lab.devices\n"
        "print(sorted({'tensorflow', 'keras', 'gymnasium'} & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (answer.stdout.strip(), answer.stderr) == ("[]", "")


def test_the_proposed_capacity_is_one_that_the_lanes_divide(monkeypatch):
    monkeypatch.setattr("dqn_lab.memory.available_memory_bytes", lambda: 2**30)
    with pytest.raises(ValueError, match=r"replay_capacity_steps=129_997 would fit"):
        check_memory(7_056_000_000, 1_000_000, 7_056, multiple=7)


# A replay that grows.


def test_growth_is_refused_when_less_than_the_reserve_is_left(monkeypatch):
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 156 * 2**20)
    with pytest.raises(MemoryError) as error:
        check_reserve(GIB, 1_000_000, multiple=7)
    assert str(error.value) == (
        "The growing replay must leave 0.25 GiB of memory: 0.15 GiB are available, and it holds 1,000,000 steps in "
        "1.00 GiB; replay_capacity_steps=899_997 would fit."  # less 100 MiB: 902_343, rounded
    )


def test_growth_goes_on_while_the_reserve_is_left(monkeypatch):
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 256 * 2**20)
    assert check_reserve(GIB, 1_000_000) is None
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 256 * 2**20 - 1)
    with pytest.raises(MemoryError, match="replay_capacity_steps=990_000 would fit"):
        check_reserve(GIB, 1_000_000)


@pytest.mark.parametrize("held", [0, 1_000, 256 * 2**20])
def test_where_no_growth_would_have_fitted_nothing_is_proposed(monkeypatch, held):
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 0)
    with pytest.raises(MemoryError, match="; no replay_capacity_steps would fit"):
        check_reserve(held, 40)


def test_more_workers_than_the_memory_has_room_for_are_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 2**30)
    memory.check_workers(3)
    with pytest.raises(ValueError, match=r"1.00 GiB are available; num_workers=3 would fit. Received: num_workers=4$"):
        memory.check_workers(4)
