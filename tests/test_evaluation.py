"""Which episodes of an evaluation count, and what is said of them."""

import math
import warnings
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_twin import ScriptedTwin

from dqn_lab.evaluation import EvaluationResult, EvaluationStopped, check_limits, evaluate

INF = math.inf


def scripted(lengths, truncated=()):
    """Episode i takes lengths[i] steps (cyclic) and rewards its last step with 10 + i."""

    def game(policy, number):
        length = lengths[number % len(lengths)]
        return [0.0] * (length - 1) + [10.0 + number], number in truncated

    return game


def one_after_the_other(game, num_episodes, num_max_iter):
    """The rule as a single player keeps it: also how many steps that takes."""
    returns, lengths, truncations, steps = [], [], [], 0
    for number in count():
        if number == num_episodes or steps == num_max_iter:
            return EvaluationResult(tuple(returns), tuple(lengths), tuple(truncations), 0), steps
        rewards, truncated = game(None, number)
        if steps + len(rewards) > num_max_iter:
            result = EvaluationResult(tuple(returns), tuple(lengths), tuple(truncations), 1)
            return result, num_max_iter
        steps += len(rewards)
        returns.append(sum(rewards))
        lengths.append(len(rewards))
        truncations.append(truncated)


@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=12),
    truncated=st.sets(st.integers(0, 12)),
    num_episodes=st.one_of(st.integers(1, 12), st.just(INF), st.just(np.inf)),
    num_max_iter=st.one_of(st.integers(1, 60), st.just(float("inf"))),
    num_envs=st.integers(1, 8),
)
def test_any_number_of_lanes_counts_what_one_after_the_other_counts(
    lengths, truncated, num_episodes, num_max_iter, num_envs
):
    if num_episodes == INF and num_max_iter == INF:
        num_max_iter = 40
    game = scripted(lengths, truncated)
    expected, steps = one_after_the_other(game, num_episodes, num_max_iter)
    limits = {"num_episodes": num_episodes, "num_max_iter": num_max_iter}
    alone, lanes = ScriptedTwin(game, 1), ScriptedTwin(game, num_envs)
    assert evaluate(alone, **limits) == expected
    assert evaluate(lanes, **limits) == expected
    assert alone.decisions == steps  # not one more than needed
    assert lanes.decisions <= steps


def test_a_short_episode_played_beside_a_long_one_waits_for_its_turn():
    game = scripted([9, 4, 12, 1, 1, 1])
    twin = ScriptedTwin(game, num_envs=3)
    result = evaluate(twin, num_episodes=INF, num_max_iter=20)
    assert result == EvaluationResult((10.0, 11.0), (9, 4), (False, False), cut=1)
    assert twin.decisions == 9  # by then episodes 0 and 1 leave 7 steps and episode 2 has taken 9


@pytest.mark.parametrize("limits", [(4, INF), (INF, 11), (INF, 14)])
def test_a_decision_that_a_lane_spends_on_its_reset_is_no_step(limits):
    game = scripted([3, 5, 2])
    limits = dict(zip(("num_episodes", "num_max_iter"), limits, strict=True))
    expected = evaluate(ScriptedTwin(game, 2), **limits)
    assert evaluate(ScriptedTwin(game, 2, spends_a_decision=True), **limits) == expected


def test_lanes_stop_as_soon_as_the_last_episode_is_known():
    twin = ScriptedTwin(scripted([5, 2]), num_envs=2)
    assert evaluate(twin, num_episodes=2, num_max_iter=INF).lengths == (5, 2)
    assert twin.decisions == 5


@pytest.mark.parametrize(
    ("num_episodes", "num_max_iter", "episodes", "cut"),
    [
        (3, INF, 3, 0),
        (INF, 15, 3, 0),  # three episodes of five steps fill it: a fourth is never begun
        (INF, 14, 2, 1),
        (INF, 16, 3, 1),
        (3, 15, 3, 0),
        (3, 14, 2, 1),
        (2, 14, 2, 0),
    ],
)
@pytest.mark.parametrize("num_envs", [1, 8])
def test_the_count_is_exact_at_both_limits(num_episodes, num_max_iter, episodes, cut, num_envs):
    twin = ScriptedTwin(scripted([5]), num_envs)
    result = evaluate(twin, num_episodes=num_episodes, num_max_iter=num_max_iter)
    assert (result.episodes, result.cut) == (episodes, cut)


def test_scores_are_raw_undiscounted_sums_of_whole_games():
    games = [([7.0, 4.0, 1.0, 1.0], False), ([-2.5], True), ([0.0, 3.0], False)]
    twin = ScriptedTwin(lambda policy, number: games[number % 3], num_envs=2)
    result = evaluate(twin, num_episodes=3, num_max_iter=INF)
    assert result.returns == (13.0, -2.5, 3.0)
    assert result.lengths == (4, 1, 2)
    assert result.capped == 1
    assert result.return_mean == pytest.approx(4.5)
    assert result.return_std == pytest.approx(math.sqrt((8.5**2 + 7**2 + 1.5**2) / 3))
    assert result.length_mean == pytest.approx(7 / 3)


def test_none_finished_is_an_empty_result_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = evaluate(ScriptedTwin(scripted([9]), 4), num_episodes=5, num_max_iter=8)
        figures = (result.return_mean, result.return_std, result.length_mean)
    assert (result.episodes, result.cut, result.capped) == (0, 1, 0)
    assert all(math.isnan(figure) for figure in figures)


def test_every_evaluation_begins_anew_from_its_seed():
    twin = ScriptedTwin(scripted([3, 5]), num_envs=2)
    first = evaluate(twin, num_episodes=5, num_max_iter=INF, seed=7)
    assert evaluate(twin, num_episodes=5, num_max_iter=INF, seed=7) == first
    assert twin.seeds == [7, 7]


@pytest.mark.parametrize("infinity", [np.inf, float("inf"), np.float64("inf"), np.float32("inf")])
def test_both_limits_open_is_refused_whatever_infinity_it_is(infinity):
    with pytest.raises(ValueError, match="must be finite, or no evaluation ends. Received: num_ep"):
        check_limits(infinity, float("inf"))


@pytest.mark.parametrize("value", [0, -1, 2.5, math.nan, -INF])
@pytest.mark.parametrize("name", ["num_episodes", "num_max_iter"])
def test_a_limit_is_a_whole_number_or_infinity(name, value):
    limits = {"num_episodes": 1, "num_max_iter": 1} | {name: value}
    with pytest.raises(ValueError, match=f"`{name}` must be a whole number .* Received: {name}="):
        check_limits(**limits)


@pytest.mark.parametrize("value", ["30", None, True])
def test_a_limit_is_a_number(value):
    with pytest.raises(TypeError, match="`num_episodes` must be a number. Received: num_episodes="):
        check_limits(value, 10)


@pytest.mark.parametrize("value", [30, 30.0, np.int64(30), np.float32(30)])
def test_whole_numbers_of_any_type_are_limits(value):
    result = evaluate(ScriptedTwin(scripted([1])), num_episodes=value, num_max_iter=INF)
    assert result.episodes == 30


def test_an_evaluation_that_is_asked_to_stop_takes_no_further_step():
    twin = ScriptedTwin(scripted([4]))
    with pytest.raises(EvaluationStopped):
        evaluate(twin, num_episodes=5, num_max_iter=INF, stop_requested=lambda: twin.decisions == 7)
    assert twin.decisions == 7
    assert evaluate(twin, num_episodes=5, num_max_iter=INF).episodes == 5
