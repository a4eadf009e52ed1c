"""Teams of workers: real processes, and the same code in threads where a process would show nothing more."""

import contextlib
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import gymnasium
import numpy as np
import pytest
import walking_workers
from walking_workers import SPAWN, Still, Walk, make_network, make_sequence, make_shared

from dqn_lab.asynchronous import worker_process
from dqn_lab.asynchronous.methods import NStepQ, OneStepSarsa
from dqn_lab.asynchronous.payload import make_payload
from dqn_lab.asynchronous.settings import AsynchronousSettings
from dqn_lab.asynchronous.shared_parameters import SharedParameters
from dqn_lab.asynchronous.shared_progress import COUNTERS, Shared, SharedProgress
from dqn_lab.asynchronous.team import Team, WorkerError, refuse_in_child

HANG_SECONDS = 120
NEVER = 2**62


def wait_until(team, met):
    """Lets a team go on until something is so."""
    latest = time.monotonic() + HANG_SECONDS
    while not met():
        assert time.monotonic() < latest, "it hangs"
        team.wait(0.05)


def updates(shared):
    return shared.progress.counters[:, COUNTERS.index("updates")].tolist()


# Processes.


@pytest.mark.case("B122")
def test_spawned_workers_make_their_environments_by_a_lambda_and_meet_at_their_steps():
    make = lambda: gymnasium.make("CartPole-v1")  # noqa: E731
    network = make_network(NStepQ(), state_shape=(4,), num_actions=2)

    def make_cart(epsilon, seed):
        return make_sequence(epsilon, seed, environment=make)

    shared = make_shared(network, 2)
    initial = shared.parameters.parameters.copy()
    team = Team(make_payload(make_cart, network, NStepQ(), AsynchronousSettings(num_workers=2)), shared, 2, SPAWN)
    try:
        assert team.begin([None, None], due_steps=50) == []
        processes = list(team._processes)
        wait_until(team, lambda: team.states is not None)
        assert 50 <= shared.parameters.steps < 50 + 2 * 6
        assert not np.array_equal(shared.parameters.parameters, initial)
        before = shared.parameters.get_state()
        team.wait(0.0)
        assert shared.parameters.steps == before["steps"]  # they stand still
        team.go(due_steps=100)
        assert team.states is None
        wait_until(team, lambda: team.states is not None)
        assert 100 <= shared.parameters.steps < 100 + 2 * 6
        steps = [state["sequence"]["simulation"]["steps"] for state in team.states]
        assert sum(steps) == shared.parameters.steps

        # One is killed while it learns: the other one's state is got.
        made = updates(shared)
        team.go(due_steps=NEVER)
        wait_until(team, lambda: all(now > then for now, then in zip(updates(shared), made, strict=True)))
        processes[1].kill()
        with pytest.raises(WorkerError, match="^worker 1 failed: its process ended by signal 9$"):
            wait_until(team, lambda: False)
        one, other = team.meet_rest()
        assert other is None
        assert one["sequence"]["simulation"]["steps"] > steps[0]
        identities = [process.pid for process in processes]
    finally:
        team.end()
    assert not {child.pid for child in multiprocessing.active_children()} & set(identities)
    for process in processes:
        with pytest.raises(ValueError, match="process object is closed"):
            process.is_alive()


@pytest.mark.posix
def test_workers_end_with_a_parent_that_is_killed_and_leave_no_memory():
    method = NStepQ()
    network = make_network(method)
    payload = make_payload(make_sequence, network, method, AsynchronousSettings(num_workers=2))
    program = subprocess.Popen(
        [sys.executable, walking_workers.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    given = cloudpickle.dumps((make_shared(network).parameters.parameters.size, 2, payload))
    try:
        # Every process it began holds the other end of its output, which is over when the last one is.
        said = program.communicate(given, timeout=HANG_SECONDS)[0].decode()
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)
        raise
    assert program.returncode == -signal.SIGKILL, said
    (line,) = (line for line in said.splitlines() if line.startswith("named:"))
    files = line.split()[1:]
    assert all(file.startswith("/dev/shm/sem.") for file in files)  # the lock; the arrays have no name even before
    assert not any(Path(file).exists() for file in files)


# The same code in threads, with a network that learns nothing.


class ThreadProcess:
    """A worker's process as a thread of this one."""

    exitcode = 0

    def __init__(self, *, target, args, name, daemon):
        self._thread = threading.Thread(target=target, args=args, name=name, daemon=True)
        self.start, self.join, self.is_alive = self._thread.start, self._thread.join, self._thread.is_alive
        self.kill = lambda: None  # a worker that is asked to meet finds that it is to stop

    def close(self):
        assert not self.is_alive()


class Threads:
    """In place of a multiprocessing context."""

    Process = ThreadProcess

    def __init__(self):
        self.workers_ends = []

    def Pipe(self):
        ours, theirs = SPAWN.Pipe()
        self.workers_ends.append(theirs)
        # A process has an end of its own, which stays open where the parent closes its copy.
        return ours, SimpleNamespace(send=theirs.send, recv=theirs.recv, close=lambda: None)


@pytest.fixture
def threads(monkeypatch):
    monkeypatch.setattr(worker_process, "prepare_child", lambda: None)
    monkeypatch.setattr("dqn_lab.asynchronous.worker.LocalNetwork", Still)
    context = Threads()
    yield context
    for end in context.workers_ends:
        end.close()


@contextlib.contextmanager
def team_in(threads, num_workers, make, rule=NStepQ):
    network = SimpleNamespace(count_params=lambda: 5)
    payload = make_payload(make, network, rule(), AsynchronousSettings(num_workers=num_workers))
    shared = Shared(SharedParameters(5, SPAWN), SharedProgress(num_workers, SPAWN))
    team = Team(payload, shared, num_workers, threads)
    try:
        yield team, shared
    finally:
        team.end()


def in_worker(number):
    return threading.current_thread().name == f"worker {number}"


class Booming(Walk):
    """Raises at its 30th step, or returns a reward that is no number."""

    count = 0

    def __init__(self, error):
        super().__init__()
        self.error = error

    def step(self, action):
        self.count += 1
        if self.count == 30 and self.error is not None:
            raise self.error
        observation, reward, *rest = super().step(action)
        return observation, math.nan if self.count == 30 else reward, *rest


def make_with(error):
    """Sequences of which that of worker 1 breaks."""

    def make(epsilon, seed):
        environment = (lambda: Booming(error)) if in_worker(1) else Walk
        return make_sequence(epsilon, seed, environment=environment)

    return make


@pytest.mark.parametrize("error", [ArithmeticError("boom"), EOFError("boom"), OSError("boom")])
def test_a_worker_that_raises_is_told_with_its_traceback_and_the_others_are_met(threads, error):
    with team_in(threads, 3, make_with(error)) as (team, shared):
        team.begin([None] * 3, NEVER)
        with pytest.raises(WorkerError) as raised:
            wait_until(team, lambda: False)
        assert str(raised.value) == f"worker 1 failed: {type(error).__name__}: boom"
        assert raised.value.trace.startswith("Traceback")
        assert "raise self.error" in raised.value.trace
        states = team.meet_rest()
        assert states == team.states
        assert [state is None for state in states] == [False, True, False]
        assert shared.progress.due_steps == 0
        steps = [state["sequence"]["simulation"]["steps"] for state in (states[0], states[2])]
        assert sum(steps) + shared.progress.counters[1, COUNTERS.index("steps")] == shared.parameters.steps


def test_a_number_that_is_none_is_told_with_its_worker(threads):
    with team_in(threads, 2, make_with(None)) as (team, shared):
        team.begin([None] * 2, NEVER)
        said = (
            r"^Worker 1, at [\d,]+ steps: The environment returned a reward .* at step 30, in lane 0, before update \d"
        )
        with pytest.raises(FloatingPointError, match=said):
            wait_until(team, lambda: False)
        assert team.meet_rest()[0] is not None


def test_of_two_errors_one_is_told(threads):
    def make(epsilon, seed):
        return make_sequence(epsilon, seed, environment=lambda: Booming(OSError("boom")))

    with team_in(threads, 2, make) as (team, _):
        team.begin([None] * 2, NEVER)
        for process in team._processes:
            process.join(HANG_SECONDS)
        with pytest.raises(WorkerError, match="failed: OSError: boom"):
            team.wait(HANG_SECONDS)
        assert team.meet_rest() == [None, None]


def test_a_worker_that_can_not_be_built_ends_the_beginning(threads):
    def make(epsilon, seed):
        if in_worker(1):
            raise KeyError("no such game")
        return make_sequence(epsilon, seed)

    with team_in(threads, 3, make) as (team, shared):
        with pytest.raises(WorkerError, match="^worker 1 failed: KeyError: 'no such game'$") as raised:
            team.begin([None] * 3, NEVER)
        assert "in make\n" in raised.value.trace
        assert team.meet_rest() is None  # nothing was learnt
        assert shared.parameters.steps == 0


def test_a_payload_that_can_not_be_read_is_told(threads):
    shared = Shared(SharedParameters(5, SPAWN), SharedProgress(1, SPAWN))
    team = Team(b"nonsense", shared, 1, threads)
    with pytest.raises(WorkerError, match="worker 0 failed: _pickle.UnpicklingError"):
        team.begin([None], NEVER)
    team.end()


def test_a_worker_that_dies_once_it_is_built_is_heard_of(threads, monkeypatch):
    def die(number, shared, pipe):
        pipe.recv()
        pipe.send((worker_process.READY, None))
        threads.workers_ends[number].close()

    monkeypatch.setattr("dqn_lab.asynchronous.team.run_worker", die)
    team = Team(b"", Shared(SharedParameters(5, SPAWN), SharedProgress(2, SPAWN)), 2, threads)
    with pytest.raises(WorkerError, match="worker 0 failed: its process ended by exit code 0"):
        team.begin([None] * 2, NEVER)
    team.end()


def test_workers_begin_from_the_states_they_are_given(threads):
    with team_in(threads, 2, make_sequence, OneStepSarsa) as (team, shared):
        team.begin([None, None], due_steps=40)
        wait_until(team, lambda: team.states is not None)
        states, told = team.states, shared.parameters.get_state()
    with team_in(threads, 2, make_sequence, OneStepSarsa) as (team, shared):
        shared.parameters.set_state(told)
        team.begin(states, due_steps=40)  # they are due at once
        wait_until(team, lambda: team.states is not None)
        for one, other in zip(states, team.states, strict=True):
            assert one["generator"] == other["generator"]
            assert one["final_epsilon"] == other["final_epsilon"]
            np.testing.assert_equal(one["sequence"], other["sequence"])
            np.testing.assert_equal(one["rollout"], other["rollout"])


class Refusing(Walk):
    def set_state(self, state):
        raise OSError("no state today")


def test_an_environment_that_refuses_its_state_is_told_once(threads):
    def make(epsilon, seed):
        return make_sequence(epsilon, seed, Refusing)

    with team_in(threads, 2, make) as (team, _):
        assert team.begin([None, None], due_steps=40) == []
        wait_until(team, lambda: team.states is not None)
        states = team.states
    with team_in(threads, 2, make) as (team, _):
        told = team.begin(states, NEVER)
        assert told == ["the environment's state can't be set (OSError: no state today)"]


def test_others_are_waited_for_beside_the_workers(threads):
    with team_in(threads, 1, make_sequence) as (team, _):
        team.begin([None], NEVER)
        ours, theirs = SPAWN.Pipe()
        assert team.wait(0.0, [ours]) == []
        theirs.send("ready")
        assert team.wait(HANG_SECONDS, [ours]) == [ours]
        ours.close()
        theirs.close()


def test_asking_to_meet_is_asking_all(threads):
    with team_in(threads, 2, make_sequence) as (team, shared):
        team.begin([None, None], NEVER)
        wait_until(team, lambda: min(updates(shared)) > 0)
        assert team.states is None
        team.meet()
        wait_until(team, lambda: team.states is not None)
        steps = shared.parameters.steps
        team.go(steps + 50)
        wait_until(team, lambda: team.states is not None)
        assert shared.parameters.steps >= steps + 50


def test_ending_twice_and_ending_what_never_began(threads):
    with team_in(threads, 2, make_sequence) as (team, _):
        team.end()
        team.begin([None, None], NEVER)
        team.end()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("worker ")]


def test_a_script_that_runs_again_in_its_workers_is_refused(monkeypatch):
    refuse_in_child()
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(RuntimeError, match="must do so under `if __name__ == '__main__':`"):
        Team(b"", None, 1, SPAWN).begin([None], 0)


def test_workers_that_are_being_built_are_left_where_that_is_asked_for(threads):
    def late(epsilon, seed):
        walking_workers.GATE.wait(HANG_SECONDS)
        return make_sequence(epsilon, seed)

    with team_in(threads, 1, late) as (team, _):
        with pytest.raises(KeyboardInterrupt, match="nothing was learnt"):
            team.begin([None], NEVER, lambda: True)
        assert team.meet_rest() is None
        walking_workers.GATE.set()


def test_workers_that_do_not_wait_are_ended_by_their_numbers(threads):
    with team_in(threads, 2, make_sequence) as (team, _):
        team.begin([None] * 2, NEVER)
        assert team.drop_late() == [0, 1]
        assert team.states == [None, None]


class Closing(Walk):
    def close(self):
        walking_workers.GATE.clear()


def test_an_environment_is_closed_with_its_worker(threads):
    walking_workers.GATE.set()
    with team_in(threads, 1, lambda epsilon, seed: make_sequence(epsilon, seed, Closing)) as (team, _):
        team.begin([None], due_steps=10)
        wait_until(team, lambda: team.states is not None)
        assert walking_workers.GATE.is_set()
    assert not walking_workers.GATE.is_set()
