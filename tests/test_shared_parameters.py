import os
import pickle
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import hogwild_workers as workers
import numpy as np
import pytest

from dqn_lab.asynchronous.shared_parameters import SharedParameters

NAMES = ("parameters", "target_parameters", "statistics")


@pytest.fixture
def shared():
    return SharedParameters(3, workers.SPAWN)


def test_it_begins_with_zeros(shared):
    for name in NAMES:
        array = getattr(shared, name)
        assert array.dtype == np.float32
        assert array.tolist() == [0, 0, 0]
    assert shared.steps == 0


def test_the_arrays_are_apart(shared):
    for number, name in enumerate(NAMES):
        getattr(shared, name)[:] = number
    assert [getattr(shared, name).tolist() for name in NAMES] == [[0] * 3, [1] * 3, [2] * 3]


def test_a_worker_writes_into_the_same_memory(shared):
    shared.parameters[:] = [1, 2, 3]
    workers.run(workers.add_one, shared, [(2,)])
    assert shared.parameters.tolist() == [3, 4, 5]
    assert shared.steps == 2


def test_it_is_pickled_for_a_new_process_only(shared):
    for dumps in (pickle.dumps, ForkingPickler.dumps):
        with pytest.raises((RuntimeError, pickle.PicklingError)):
            dumps(shared)


@pytest.mark.parametrize("number", [1, 2, 4])
def test_every_step_is_counted_once_whoever_makes_it(shared, number):
    told = workers.run(workers.count, shared, [(3, 500)] * number)
    assert sorted(sum(told, [])) == list(range(0, 3 * 500 * number, 3))
    assert shared.steps == 3 * 500 * number


def test_the_count_is_read_although_somebody_holds_its_lock(shared):
    shared.add_steps(7)
    with ThreadPoolExecutor(1) as other, shared._steps.get_lock():
        assert other.submit(lambda: shared.steps).result(timeout=30) == 7


def test_a_count_beyond_32_bits(shared):
    assert shared.add_steps(10**10) == 0
    assert shared.add_steps(1) == 10**10
    assert shared.steps == 10**10 + 1


def test_a_state_is_a_copy_and_brings_everything_back(shared):
    for number, name in enumerate(NAMES):
        getattr(shared, name)[:] = number
    shared.add_steps(10)
    state = shared.get_state()
    shared.parameters[:] = 9
    assert state["parameters"].tolist() == [0, 0, 0]
    other = SharedParameters(3, workers.SPAWN)
    views = [getattr(other, name) for name in NAMES]
    other.set_state(state)
    assert [view.tolist() for view in views] == [[0] * 3, [1] * 3, [2] * 3]
    assert other.steps == 10
    state["statistics"][:] = 9
    assert other.statistics.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("name", "given", "error", "said"),
    [
        ("parameters", np.zeros(1), ValueError, r"`parameters` must have shape \(3,\)"),
        ("target_parameters", np.array([0, np.nan, 0]), ValueError, "`target_parameters` must be finite. Received: 1"),
        ("statistics", np.array([0, np.inf, np.inf]), ValueError, "`statistics` must be finite. Received: 2"),
        ("statistics", np.array([0, -1, 0]), ValueError, "`statistics` must not be below 0. Received: -1"),
        ("steps", -1, ValueError, "`steps` must be at least 0. Received: steps=-1"),
        ("steps", 1.5, TypeError, "`steps` must be an integer. Received: steps=1.5"),
    ],
)
def test_a_wrong_state_changes_nothing(shared, name, given, error, said):
    state = {key: np.ones(3) for key in NAMES} | {"steps": 5, name: given}
    with pytest.raises(error, match=said):
        shared.set_state(state)
    assert [getattr(shared, key).tolist() for key in NAMES] == [[0] * 3] * 3
    assert shared.steps == 0


def test_wrong_arguments(shared):
    with pytest.raises(ValueError, match="`size` must be at least 1. Received: size=0"):
        SharedParameters(0, workers.SPAWN)
    with pytest.raises(TypeError, match="`size` must be an integer"):
        SharedParameters(1.5, workers.SPAWN)
    with pytest.raises(ValueError, match="`n` must be at least 0. Received: n=-1"):
        shared.add_steps(-1)


@pytest.mark.posix
def test_after_a_kill_no_process_and_no_memory_is_left():
    program = subprocess.Popen(
        [sys.executable, workers.__file__],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        # Every process it began holds the other end: the output is over when the last one is.
        said, _ = program.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)
        raise
    assert program.returncode == -signal.SIGKILL, said
    (line,) = (line for line in said.splitlines() if line.startswith("named:"))
    files = line.split()[1:]
    assert all(file.startswith("/dev/shm/sem.") for file in files)  # the lock; the arrays have no name even before
    assert not any(Path(file).exists() for file in files)
