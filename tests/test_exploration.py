"""Exploration: which actions are greedy, how many are random, how much is drawn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dqn_lab.exploration import draw_exploration, epsilon_greedy, uniform_actions


@pytest.fixture
def generator():
    return np.random.default_rng(7)


def test_the_largest_value_is_taken(generator):
    values = np.array([[1, 3, 2], [5, 4, -1], [-3, -2, -1]], np.float32)
    assert epsilon_greedy(values, 0.0, generator).tolist() == [1, 0, 2]


def test_of_equal_values_the_first_is_taken(generator):
    values = np.array([[2, 2, 1], [0, 7, 7]], np.float32)
    assert epsilon_greedy(values, 0.0, generator).tolist() == [0, 1]


@pytest.mark.case("B068")
@pytest.mark.parametrize(("epsilon", "low", "high"), [(0.05, 390, 610), (0.0, 0, 0), (1.0, 1e4, 1e4)])
def test_epsilon_is_the_share_of_random_draws(generator, epsilon, low, high):
    explores, _ = draw_exploration(10_000, 4, epsilon, generator)
    assert low <= explores.sum() <= high


@pytest.mark.case("B068")
def test_random_draws_take_the_place_of_greedy_actions_uniformly(generator):
    values = np.tile(np.float32([0, 1, 0, 0]), (40_000, 1))
    counts = np.bincount(epsilon_greedy(values, 0.4, generator), minlength=4)
    # 0.4 / 4 of 40,000 each, 4,000 +- 5 standard deviations of 60; the greedy one has the rest.
    assert np.abs(counts[[0, 2, 3]] - 4_000).max() < 300
    assert abs(counts[1] - 28_000) < 500


def test_an_action_is_random_exactly_where_the_draw_says_so():
    values = np.tile(np.float32([1, 0, 0]), (500, 1))
    explores, drawn = draw_exploration(500, 3, 0.3, np.random.default_rng(1))
    action = epsilon_greedy(values, 0.3, np.random.default_rng(1))
    assert np.array_equal(action, np.where(explores, drawn, 0))
    assert 0 < explores.sum() < 500


@given(st.floats(0, 1), st.integers(1, 9), st.integers(1, 18))
def test_the_generator_moves_by_the_same_draws_whatever_epsilon_is(epsilon, num_envs, num_actions):
    one, other, by_hand = (np.random.default_rng(3) for _ in range(3))
    values = np.zeros((num_envs, num_actions), np.float32)
    epsilon_greedy(values, epsilon, one)
    epsilon_greedy(values, 0.0, other)
    by_hand.random(num_envs)
    by_hand.integers(num_actions, size=num_envs)
    assert one.bit_generator.state == other.bit_generator.state == by_hand.bit_generator.state


def test_uniform_actions_are_uniform(generator):
    action = uniform_actions(30_000, 3, generator)
    assert action.dtype == np.int64
    assert np.abs(np.bincount(action, minlength=3) - 10_000).max() < 400


def test_actions_are_int64_one_per_row(generator):
    action = epsilon_greedy(np.zeros((5, 2), np.float32), 0.5, generator)
    assert action.shape == (5,)
    assert action.dtype == np.int64


@pytest.mark.parametrize("shape", [(3,), (2, 0), (2, 3, 1)])
def test_other_shapes_are_refused(generator, shape):
    with pytest.raises(ValueError, match=r"shape \[B, A\]. Received: values.shape="):
        epsilon_greedy(np.zeros(shape), 0.1, generator)


@pytest.mark.parametrize("epsilon", [-0.01, 1.01, float("nan")])
def test_epsilon_outside_0_and_1_is_refused(generator, epsilon):
    with pytest.raises(ValueError, match=f"`epsilon` must .* Received: epsilon={epsilon}"):
        epsilon_greedy(np.zeros((1, 2)), epsilon, generator)


def test_the_global_generator_is_refused():
    with pytest.raises(TypeError, match="must be a numpy.random.Generator.* Received: generator="):
        uniform_actions(1, 2, np.random)


@pytest.mark.parametrize(("num_envs", "num_actions", "name"), [(0, 2, "num_envs"), (1, 0, "num_a")])
def test_counts_below_1_are_refused(generator, num_envs, num_actions, name):
    with pytest.raises(ValueError, match=f"must be at least 1. Received: {name}"):
        uniform_actions(num_envs, num_actions, generator)
