"""Evaluation with real sequences: public reports, and that the number of lanes changes nothing."""

import math

import gymnasium
import keras
import numpy as np
import pytest

from dqn_lab.agents.dqn import DQN
from dqn_lab.callbacks.evaluation import Evaluation
from dqn_lab.callbacks.measures import COLUMNS
from dqn_lab.environments.catch import Catch
from dqn_lab.evaluation import evaluate
from dqn_lab.rewards import transform_reward
from dqn_lab.sequences.atari import AtariSequence
from dqn_lab.sequences.environment import EnvironmentSequence

INF = math.inf
SMALL = {"replay_capacity_steps": 1000, "replay_min_steps": 100, "updates_per_epoch": 25}


def scores_of_pixels(features):
    """A policy that looks: the column sums of the picture, as whole numbers, pick the action."""
    seen = np.asarray(features, np.int64).reshape(len(features), -1).sum(axis=1)
    return np.eye(3, dtype=np.int64)[seen % 3]  # [N, 3]


class Rewards(gymnasium.Env):
    """Four steps that pay 7, 4, 1 and 1."""

    observation_space = gymnasium.spaces.Box(0, 4, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.step_number = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        reward = (7.0, 4.0, 1.0, 1.0)[self.step_number]
        self.step_number += 1
        observation = np.full(1, self.step_number, np.float32)
        return observation, reward, self.step_number == 4, False, {}


class Clipped(EnvironmentSequence):
    """A sequence whose learner sees clipped rewards."""

    def get_reward_by_index(self, index):
        return transform_reward(super().get_reward_by_index(index), "clip")


class ThousandActions(gymnasium.Env):
    """Games of a hundred steps that keep the actions they are given."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(1000)

    def __init__(self, taken):
        self.taken = taken

    def reset(self, *, seed=None, options=None):
        self.left = 100
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.taken.append(int(action))
        self.left -= 1
        return np.zeros(1, np.float32), 0.0, self.left == 0, False, {}


def make_breakout(protocol, **given):
    return AtariSequence("breakout", protocol=protocol, epsilon=1.0, **SMALL | given)


@pytest.mark.case("B061")
def test_a_game_that_never_ends_is_finished_by_the_frame_cap_and_counts():
    sequence = make_breakout("nature-2015", noop_max=0, evaluation_frame_cap=400)
    twin = sequence.create_validation_instance(epsilon=0.0, num_envs=1)
    twin.policy = lambda features: np.array([[1.0, 0.0, 0.0, 0.0]])  # never FIRE
    result = evaluate(twin, num_episodes=1, num_max_iter=INF)
    assert result.lengths == (100,)
    assert result.returns == (0.0,)
    assert result.truncated == (True,)
    assert (result.capped, result.cut) == (1, 0)
    assert not twin.get_latest_terminal().any()


@pytest.mark.case("B064")
def test_people_see_raw_scores_and_the_learner_clipped_rewards():
    sequence = Clipped(Rewards, epsilon=1.0, **SMALL | {"replay_min_steps": 4})
    sequence.simulate(4)
    twin = sequence.create_validation_instance(epsilon=0.0, num_envs=2)
    assert evaluate(twin, num_episodes=3, num_max_iter=INF).returns == (13.0, 13.0, 13.0)
    assert (sequence.episodes, sequence.episode_return_sum) == (1, 13.0)
    assert sequence.get_transitions(np.arange(4))["reward"].sum() == 4.0
    tags = {one.key: one.tag for one in COLUMNS}
    assert tags["eval_return_mean"] != tags["train_return_mean"]


@pytest.mark.case("B066")
def test_training_is_the_same_with_and_without_evaluations(tmp_path):
    trained = []
    for evaluated in (False, True):
        sequence = EnvironmentSequence(Catch, epsilon=0.5, feeding="alternate", seed=3, **SMALL)
        network = keras.Sequential(
            [
                keras.Input(sequence.state_shape),
                keras.layers.Flatten(),
                keras.layers.Dense(3, kernel_initializer=keras.initializers.GlorotUniform(1)),
            ]
        )
        agent = DQN(network, target_period_updates=10)
        agent.compile(keras.optimizers.SGD(0.01))
        evaluation = Evaluation(sequence.create_validation_instance, 0.05, 5, INF, 20, init_state_dir=tmp_path)
        agent.fit(sequence, epochs=6, verbose=0, callbacks=[evaluation] if evaluated else [])
        trained.append((sequence, network))
        assert evaluation.complete_epochs == 6 * evaluated
    (plain, plain_network), (beside, beside_network) = trained
    assert plain.steps == beside.steps == 700  # 600 after the fill
    stored, stored_beside = plain.replay.ring.get_state(), beside.replay.ring.get_state()
    for name, column in stored.items():
        rows = slice(len(plain.replay.ring)) if len(column) == plain.replay.ring.capacity else ...
        np.testing.assert_array_equal(column[rows], stored_beside[name][rows])
    for left, right in zip(plain_network.weights, beside_network.weights, strict=True):
        np.testing.assert_array_equal(left.numpy(), right.numpy())


@pytest.mark.case("B068")
@pytest.mark.parametrize(("epsilon", "least", "most"), [(0.05, 390, 610), (0.0, 0, 0)])
def test_evaluation_has_an_epsilon_of_its_own(epsilon, least, most):
    taken = []
    sequence = EnvironmentSequence(lambda: ThousandActions(taken), epsilon=1.0, **SMALL)
    twin = sequence.create_validation_instance(epsilon, num_envs=1)
    best = np.zeros((1, 1000))
    best[0, 7] = 1.0
    twin.policy = lambda features: best
    evaluate(twin, num_episodes=INF, num_max_iter=10_000)
    assert len(taken) == 10_000
    assert least <= np.count_nonzero(np.array(taken) != 7) <= most


@pytest.mark.parametrize("limits", [(7, INF), (INF, 100), (INF, 99), (30, 200)])
def test_one_lane_and_eight_lanes_play_the_same_games_of_catch(limits):
    limits = dict(zip(("num_episodes", "num_max_iter"), limits, strict=True))
    sequence = EnvironmentSequence(Catch, epsilon=1.0, **SMALL)
    results = []
    for num_envs in (1, 8):
        twin = sequence.create_validation_instance(0.3, num_envs)
        twin.policy = scores_of_pixels
        results.append(evaluate(twin, **limits, seed=5))
    assert results[0] == results[1]
    assert results[0].episodes >= 7


def test_one_lane_and_three_lanes_play_the_same_games_of_breakout():
    sequence = make_breakout("breakout-v0")
    results = []
    for num_envs in (1, 3):
        twin = sequence.create_validation_instance(1.0, num_envs)
        results.append(evaluate(twin, num_episodes=3, num_max_iter=INF, seed=5))
    assert results[0] == results[1]
    assert len(set(results[0].lengths)) > 1
