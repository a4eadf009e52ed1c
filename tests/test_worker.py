"""One worker in this process: its updates against a reference in float64, its state, and what it refuses."""

import copy
import math
import re

import numpy as np
import pytest
from walking_workers import Still, Walk, make_network, make_sequence, make_shared
from worlds import Breaking

from dqn_lab.asynchronous.local_network import LocalNetwork
from dqn_lab.asynchronous.methods import METHODS, AdvantageActorCritic, NStepQ, OneStepQ, OneStepSarsa
from dqn_lab.asynchronous.settings import AsynchronousSettings
from dqn_lab.asynchronous.shared_progress import COUNTERS
from dqn_lab.asynchronous.worker import Worker


def begin(method, *, number=0, shared=None, make=make_sequence, lstm_units=0, network=None, **settings):
    """A worker, and what it shares."""
    settings = AsynchronousSettings(**{"t_max": 3, "learning_rate": 0.01, **settings})
    network = make_network(method, lstm_units=lstm_units) if network is None else network
    shared = make_shared(network, settings.num_workers, settings.rmsprop_start) if shared is None else shared
    return Worker(number, make, network, method, settings, shared), shared


def counted(shared, name, number=0):
    return shared.progress.counters[number, COUNTERS.index(name)]


@pytest.fixture
def still(monkeypatch):
    monkeypatch.setattr("dqn_lab.asynchronous.worker.LocalNetwork", Still)


class Recorded:
    """Keeps the segments that a worker learns from, with its gradients."""

    def __init__(self, worker):
        self._gradient, self.segments, self.gradients = worker._network.gradient, [], []
        worker._network.gradient = self

    def __call__(self, segment):
        gradient, *figures = self._gradient(segment)
        self.segments.append(segment)
        self.gradients.append(gradient.copy())
        return gradient, *figures


class Reference:
    """The same updates in float64, by the equations of Mnih et al. (2016), S1 to S3."""

    def __init__(self, method, shared, settings):
        self.network, self.settings = LocalNetwork(make_network(method), method), settings
        self.theta = shared.parameters.parameters.astype(float)
        self.target, self.statistics = self.theta.copy(), np.zeros_like(self.theta)
        if settings.rmsprop != "momentum_sgd":
            self.statistics += settings.rmsprop_start
        self.method, self.copies = method, []

    def learn(self, segment, before, after):
        """One update from a segment, made while so many steps were counted before and after it."""
        self.network.load(self.theta.astype(np.float32))
        if self.method.needs_target:
            self.network.load_target(self.target.astype(np.float32))
        gradient = self.network.gradient(segment)[0].astype(float)
        norm = np.sqrt((gradient**2).sum())
        if 0 < self.settings.gradient_clip < norm:
            gradient *= self.settings.gradient_clip / norm
        rate = self.settings.learning_rate * max(0.0, 1 - before / self.settings.anneal_steps)
        if self.settings.rmsprop == "momentum_sgd":
            self.statistics = 0.99 * self.statistics + 0.01 * gradient
            self.theta -= rate * self.statistics
        else:
            self.statistics = 0.99 * self.statistics + 0.01 * gradient**2
            self.theta -= rate * gradient / np.sqrt(self.statistics + self.settings.rmsprop_epsilon)
        period = self.settings.target_period_steps
        if before // period < after // period:
            self.target = self.theta.copy()
            self.copies.append(after)


@pytest.mark.parametrize(
    ("method", "rmsprop", "start", "clip"),
    [
        (AdvantageActorCritic(), "shared", 0.0, 0.5),
        (OneStepQ(), "per_worker", 0.0, 40.0),
        (OneStepQ(), "per_worker", 0.25, 40.0),
        (NStepQ(loss="mse"), "momentum_sgd", 0.5, 0.0),
        (OneStepSarsa(), "shared", 0.5, 0.0),
    ],
)
def test_a_worker_is_equal_to_float64(method, rmsprop, start, clip):
    given = {"learning_rate": 0.05, "anneal_steps": 100, "gradient_clip": clip, "rmsprop": rmsprop}
    given |= {"rmsprop_start": start}
    given |= {"target_period_steps": 17, "rmsprop_epsilon": 0.05}
    worker, shared = begin(method, **given)
    record, reference = Recorded(worker), Reference(method, shared, AsynchronousSettings(**given))
    if rmsprop != "shared":
        shared.parameters.statistics[:] = 7.0  # of no account to a worker that has its own
    norms, began = [], shared.parameters.parameters.copy()
    for update in range(1, 26):
        before = shared.parameters.steps
        worker.learn()
        after = shared.parameters.steps
        assert before < after <= before + 5  # the first one, and the one that waits for Sarsa
        reference.learn(record.segments[-1], before, after)
        norms.append(np.linalg.norm(record.gradients[-1]))
        assert worker.updates == update
    theta = shared.parameters.parameters
    np.testing.assert_allclose(theta, reference.theta, rtol=2e-4, atol=2e-5)
    assert np.abs(theta - began).max() > 0.01
    if rmsprop == "shared":
        np.testing.assert_allclose(shared.parameters.statistics, reference.statistics, rtol=1e-3, atol=1e-5)
    else:
        assert (shared.parameters.statistics == 7).all()
    if method.needs_target:
        assert len(reference.copies) == shared.progress.target_copies == shared.parameters.steps // 17 >= 3
        np.testing.assert_allclose(shared.parameters.target_parameters, reference.target, rtol=2e-4, atol=2e-5)
    else:
        np.testing.assert_array_equal(shared.parameters.target_parameters, began)
    if clip == 0.5:
        assert sum(norm > clip for norm in norms) > 5


def test_counters_tell_what_was_played_and_learnt(still):
    worker, shared = begin(OneStepSarsa(), epsilon_start=0.5, epsilon_end=0.5)
    record = Recorded(worker)
    while shared.progress.totals()["episodes"] < 3:
        worker.learn()
    totals = shared.progress.totals()
    assert totals["steps"] == totals["frames"] == shared.parameters.steps == worker._sequence.steps
    learnt = sum(len(segment["action"]) for segment in record.segments)
    assert totals["learnt_steps"] == learnt
    assert totals["steps"] == learnt + 1 + len(worker._rollout.get_state()["rows"])  # the first step teaches nothing
    assert totals["updates"] == worker.updates == len(record.segments)
    assert totals["episode_return_sum"] == worker._sequence.episode_return_sum
    assert totals["episode_length_sum"] == worker._sequence.episode_length_sum
    assert totals["epsilon"] == 0.5
    assert min(totals["acting"], totals["environment"], totals["update"]) > 0


def test_losses_and_values_are_sums_over_the_steps():
    worker, shared = begin(NStepQ())
    told, gradient = [], worker._network.gradient

    def remembered(segment):
        told.append(gradient(segment))
        return told[-1]

    worker._network.gradient = remembered
    for _ in range(4):
        worker.learn()
    assert counted(shared, "loss_sum") == pytest.approx(sum(loss for _, loss, _ in told))
    assert counted(shared, "value_sum") == pytest.approx(sum(values for _, _, values in told))


def test_a_worker_is_due_once_the_steps_are_made_by_whomever(still):
    worker, shared = begin(NStepQ())
    assert worker.is_due()  # nobody has said yet when to meet
    shared.progress.due_steps = 10
    assert not worker.is_due()
    shared.parameters.add_steps(9)
    assert not worker.is_due()
    shared.parameters.add_steps(1)
    assert worker.is_due()
    shared.progress.due_steps = 0
    assert worker.is_due()


def test_behind_the_annealing_nothing_moves():
    worker, shared = begin(AdvantageActorCritic(), anneal_steps=50)
    shared.parameters.add_steps(50)  # by others
    before = shared.parameters.parameters.copy()
    worker.learn()
    np.testing.assert_array_equal(shared.parameters.parameters, before)
    assert worker.updates == 1


# What goes by the steps of all workers.


def test_epsilon_falls_over_the_steps_of_all_workers(still):
    worker, shared = begin(NStepQ(), epsilon_start=1.0, epsilon_end=0.2, epsilon_steps=1000)
    assert worker._sequence.epsilon == 1.0
    shared.parameters.add_steps(500)
    assert worker._sequence.epsilon == pytest.approx(0.6)
    worker.learn()
    shared.parameters.add_steps(500)
    assert worker._sequence.epsilon == 0.2
    worker.learn()
    assert counted(shared, "epsilon") == 0.2


def test_an_actor_critic_explores_by_its_policy_alone(still):
    worker, shared = begin(AdvantageActorCritic())
    assert worker._sequence.epsilon == 0.0
    worker.learn()
    assert counted(shared, "epsilon") == 0.0


def test_the_target_is_copied_by_the_worker_that_completes_a_period(still):
    worker, shared = begin(OneStepQ(), target_period_steps=100, t_max=5)
    parameters, progress = shared.parameters, shared.progress
    first = parameters.target_parameters.copy()
    worker.learn()
    parameters.add_steps(98 - parameters.steps)  # by others
    np.testing.assert_array_equal(parameters.target_parameters, first)
    while parameters.steps < 100:
        worker.learn()
    copied = parameters.parameters.copy()
    assert not np.array_equal(copied, first)
    np.testing.assert_array_equal(parameters.target_parameters, copied)
    assert progress.target_copies == 1
    worker.learn()
    np.testing.assert_array_equal(parameters.target_parameters, copied)  # within a period it stays
    parameters.add_steps(100)  # another one completes the next period, and copies
    worker.learn()
    np.testing.assert_array_equal(parameters.target_parameters, copied)
    parameters.add_steps(299 - parameters.steps)
    worker.learn()
    np.testing.assert_array_equal(parameters.target_parameters, parameters.parameters)
    assert progress.target_copies == 3  # of the periods that were completed


def test_a_copy_by_another_worker_is_loaded_with_the_next_segment(still):
    worker, shared = begin(OneStepQ(), target_period_steps=10**6)
    loaded = worker._network.loaded_target
    for _ in range(3):
        worker.learn()
    assert len(loaded) == 1
    shared.parameters.target_parameters[:] = 0.25
    shared.progress.target_copies = 1
    for _ in range(2):
        worker.learn()
    assert len(loaded) == 2
    assert (loaded[1] == 0.25).all()


def test_parameters_are_loaded_before_each_segment(still):
    worker, shared = begin(OneStepQ())
    worker.learn()
    shared.parameters.parameters[:] = 0.5  # by others
    worker.learn()
    assert (worker._network.loaded[1] == 0.5).all()


# What tells workers apart.


def seen(number, seed=0, num_workers=3):
    """What a worker is shown and does in its first segments."""
    worker, _ = begin(NStepQ(), number=number, num_workers=num_workers, seed=seed)
    record = Recorded(worker)
    for _ in range(4):
        worker.learn()
    states = np.concatenate([segment["state"] for segment in record.segments])
    return states.round(6).tolist(), np.concatenate([segment["action"] for segment in record.segments]).tolist()


def test_workers_play_games_of_their_own(still):
    games = [seen(number) for number in range(3)] + [seen(0, seed=1)]
    for one in range(4):
        for other in range(one):
            assert not {tuple(state) for state in games[one][0]} & {tuple(state) for state in games[other][0]}
            assert games[one][1] != games[other][1]
    assert seen(1) == games[1]
    assert seen(1, num_workers=2) == games[1]  # its games don't depend on how many others there are


def test_final_epsilons_are_drawn_for_each_worker(still):
    how = {"num_workers": 12, "network": make_network(NStepQ())}
    ends = [begin(NStepQ(), number=number, **how)[0].final_epsilon for number in range(12)]
    assert set(ends) == {0.1, 0.01, 0.5}
    assert begin(NStepQ(), number=5, **how, epsilon_end=0.3)[0].final_epsilon == 0.3


def test_a_worker_writes_its_own_row_of_counters(still):
    worker, shared = begin(NStepQ(), number=1, num_workers=3)
    worker.learn()
    assert shared.progress.counters[1, 0] == 1
    assert not shared.progress.counters[[0, 2]].any()


# State.

ALL = [
    *[(rule(), 0, "shared") for rule in METHODS.values()],
    (AdvantageActorCritic(), 3, "per_worker"),
    (OneStepQ(double=True), 0, "momentum_sgd"),
]


@pytest.mark.parametrize(("method", "lstm_units", "rmsprop"), ALL, ids=lambda value: str(getattr(value, "name", value)))
def test_a_worker_goes_on_from_a_state_bit_by_bit(method, lstm_units, rmsprop):
    how = {"lstm_units": lstm_units, "rmsprop": rmsprop, "target_period_steps": 20, "epsilon_steps": 100, "t_max": 4}
    worker, shared = begin(method, **how)
    while worker.updates < 6 or not worker._sequence._simulation.lane_length[0]:  # until an episode is running
        worker.learn()
    state = copy.deepcopy(worker.get_state())
    others = shared.parameters.get_state(), shared.progress.counters.copy(), shared.progress.target_copies
    assert (state["statistics"] is None) == (rmsprop == "shared")
    assert (state["memory"] is not None) == (lstm_units > 0)

    again, theirs = begin(method, **how)
    theirs.parameters.set_state(others[0])
    theirs.progress.counters[:], theirs.progress.target_copies = others[1:]
    again.set_state(copy.deepcopy(state))
    for _ in range(9):
        worker.learn()
        again.learn()
        for name in ("parameters", "target_parameters", "statistics"):
            np.testing.assert_array_equal(getattr(theirs.parameters, name), getattr(shared.parameters, name))
        assert theirs.parameters.steps == shared.parameters.steps
    np.testing.assert_array_equal(theirs.progress.counters[:, :-3], shared.progress.counters[:, :-3])  # no seconds
    assert worker._sequence.episodes > 2


def test_a_final_epsilon_goes_with_the_state(still):
    worker, _ = begin(NStepQ(), epsilon_steps=0)
    state = copy.deepcopy(worker.get_state()) | {"final_epsilon": 0.375}
    worker.set_state(state)
    assert worker.final_epsilon == worker._sequence.epsilon == worker.get_state()["final_epsilon"] == 0.375


class Untold(Walk):
    """Begins anew where it is continued."""

    get_state = None


class Refusing(Walk):
    def set_state(self, state):
        raise OSError("no state today")


@pytest.mark.parametrize("environment", [Untold, Refusing])
def test_an_environment_that_can_not_be_continued_begins_a_new_episode(still, environment):
    def make(**given):
        return make_sequence(**given, environment=environment)

    worker, shared = begin(OneStepSarsa(), make=make)
    while not worker._rollout.get_state()["rows"]:
        worker.learn()
    state = copy.deepcopy(worker.get_state())
    steps, updates = worker._sequence.steps, worker.updates
    again, theirs = begin(OneStepSarsa(), make=make)
    theirs.parameters.set_state(shared.parameters.get_state())
    theirs.progress.counters[:] = shared.progress.counters
    refusal = again.set_state(state)
    assert (refusal is not None) == (environment is Refusing)
    record = Recorded(again)
    again.learn()
    (segment,) = record.segments
    assert not (segment["state"][0] == state["rollout"]["rows"][0]["state"]).any()  # what waited is of a lost episode
    assert again.updates == updates + 1
    assert theirs.parameters.steps == again._sequence.steps > steps


def test_a_state_of_another_environment_is_refused(still):
    worker, _ = begin(NStepQ())
    state = copy.deepcopy(worker.get_state())
    state["sequence"]["identity"] = "another"
    with pytest.raises(ValueError, match="The state must be one of the same environments"):
        worker.set_state(state)


# Numbers that are not finite.


class Breaks:
    """A sequence whose environment breaks at its 11th step."""

    def __init__(self, **given):
        self.given = given

    def __call__(self, **given):
        return make_sequence(**given, environment=lambda: Breaking(at=11, num_actions=3, **self.given))


def broken(method, make, **how):
    """What a worker says of it; the update that was to be made changed nothing."""
    how = {"t_max": 4, "number": 1, "num_workers": 2, **how}
    network = make_network(method, state_shape=(1,))
    worker, shared = begin(method, make=make, network=network, **how)
    shared.parameters.add_steps(1000)  # by the other one
    said = None
    while said is None:
        before, counters = shared.parameters.get_state(), shared.progress.counters.copy()
        try:
            worker.learn()
        except FloatingPointError as error:
            said = str(error)
    for name, after in shared.parameters.get_state().items():
        np.testing.assert_array_equal(after, before[name])
    np.testing.assert_array_equal(shared.progress.counters, counters)
    return said


@pytest.mark.parametrize(("what", "phrase"), [("reward", "a reward"), ("observation", "an observation")])
def test_what_an_environment_returns_is_refused_with_worker_update_and_step(still, what, phrase):
    said = broken(NStepQ(), Breaks(what=what))
    assert said == (
        f"Worker 1, at 1,009 steps: The environment returned {phrase} that is not finite at step 11, in lane 0, "
        f"before update 3. Received: {what}=nan"
    )


def test_a_reward_whose_square_leaves_float32_is_refused():
    make = Breaks(what=None, reward=lambda elapsed: 3e38 if elapsed == 11 else 0.0)
    for method in (NStepQ(loss="mse"), AdvantageActorCritic()):
        said = broken(method, make)
        assert said.startswith("The loss of worker 1's update 3 is not finite, at 1,009 steps; the update was not made")


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_a_reward_beyond_float32_is_refused():
    said = broken(NStepQ(), Breaks(what=None, reward=lambda elapsed: 1e39 if elapsed == 11 else 0.0))
    assert said.startswith("The loss of worker 1's update 3 is not finite, at 1,009 steps")


@pytest.mark.parametrize("clip", [40.0, 0.0])
@pytest.mark.parametrize("wrong", [math.nan, -math.inf])
def test_a_gradient_that_is_not_finite_is_refused(wrong, clip):
    worker, shared = begin(NStepQ(), number=1, num_workers=2, gradient_clip=clip)
    worker.learn()
    gradient = worker._network.gradient

    def broken_gradient(segment):
        slopes, *figures = gradient(segment)
        slopes[3] = wrong
        return slopes, *figures

    worker._network.gradient = broken_gradient
    before, steps = shared.parameters.get_state(), shared.parameters.steps
    said = f"The gradient of worker 1's update 2 is not finite, at {steps:,} steps; the update was not made."
    with pytest.raises(FloatingPointError, match=re.escape(said)):
        worker.learn()
    for name, after in shared.parameters.get_state().items():
        np.testing.assert_array_equal(after, before[name])
    assert worker.updates == 1


def test_values_that_are_no_numbers_are_refused():
    worker, shared = begin(NStepQ())
    worker.learn()
    shared.parameters.parameters[:] = math.nan
    said = r"Worker 0, at \d+ steps: A policy must return action values that are numbers. .* before update 2\."
    with pytest.raises(FloatingPointError, match=said):
        worker.learn()


def test_huge_rewards_are_learnt_as_long_as_they_are_finite():
    def make(**given):
        return make_sequence(**given, environment=lambda: Walk(reward_scale=1e17))

    worker, shared = begin(NStepQ(loss="mse"), make=make)
    for _ in range(10):
        worker.learn()
    assert np.isfinite(shared.parameters.parameters).all()
    assert worker.updates == 10
