"""Figures over games: rliable's on the same scores, and small ones worked by hand."""

import numpy as np
import pytest

from dqn_lab.reports import aggregate_scores as module
from dqn_lab.reports.aggregate_scores import Aggregate, aggregate_scores

# [runs, games], as rliable has them.
FIVE_RUNS = [
    [-0.02, 0.31, 1.5, 0.93],
    [0.12, 0.28, 2.75, 1.10],
    [0.05, 0.44, 0.9, 1.02],
    [0.00, 0.25, 1.9, 0.55],
    [0.20, 0.36, 2.2, 1.31],
]
THREE_RUNS = [row[:3] for row in FIVE_RUNS[:3]]  # 9 scores: a quarter isn't whole
NAMES = ("mean", "median", "iqm", "optimality_gap")
# rliable 1.2.0: get_interval_estimates(scores, [aggregate_mean, aggregate_median, aggregate_iqm,
# aggregate_optimality_gap], reps=50000, random_state=RandomState(0)).
RLIABLE = [
    (
        FIVE_RUNS,
        (0.8075, 0.655, 0.614, 0.4315),
        ((0.6575, 0.955), (0.535, 0.761), (0.513, 0.738), (0.391, 0.4815)),
    ),
    (
        THREE_RUNS,
        (0.70333333, 0.34333333, 0.41, 0.54666667),
        ((0.43888889, 1.04), (0.28, 0.44), (0.364, 0.76), (0.50888889, 0.58333333)),
    ),
]


@pytest.mark.parametrize(("scores", "values", "intervals"), RLIABLE)
def test_the_figures_are_rliables(scores, values, intervals):
    found = aggregate_scores(np.transpose(scores))
    assert tuple(found) == NAMES
    assert [found[name].value for name in NAMES] == pytest.approx(values, abs=1e-8)
    for name, interval in zip(NAMES, intervals, strict=True):
        assert found[name].interval == pytest.approx(interval, abs=0.015)  # draws of another generator


def test_the_draws_stay_within_their_game():
    # Every run of a game has the game's score: nothing can be drawn but that.
    found = aggregate_scores([[0.0, 0.0], [10.0, 10.0, 10.0]])
    assert found["mean"] == Aggregate(5.0, (5.0, 5.0))
    assert found["median"] == Aggregate(5.0, (5.0, 5.0))
    assert found["optimality_gap"] == Aggregate(0.5, (0.5, 0.5))


def test_the_interval_has_the_spread_of_the_mean_over_runs():
    # Of 4 draws of 0 or 1 all are equal with odds of 1 in 16, more than the 2.5% beyond either end.
    assert aggregate_scores([[0.0, 0.0, 1.0, 1.0]])["mean"] == Aggregate(0.5, (0.0, 1.0))


def test_games_count_alike_in_means_and_runs_in_the_iqm_however_many_runs_they_have():
    found = aggregate_scores([[0.0, 2.0, 4.0, 6.0, 8.0], [0.4, 0.6], [20.0, 22.0]])
    assert found["mean"].value == pytest.approx((4.0 + 0.5 + 21.0) / 3)
    assert found["median"].value == pytest.approx(4.0)
    # Sorted 0, .4, .6, 2, 4, 6, 8, 20, 22: a quarter of nine is two.
    assert found["iqm"].value == pytest.approx((0.6 + 2 + 4 + 6 + 8) / 5)
    # What is missing to 1: 1, 0, 0, 0, 0 of the first, .6 and .4 of the second, nothing of the third.
    assert found["optimality_gap"].value == pytest.approx((0.2 + 0.5 + 0.0) / 3)


def test_a_single_run_of_a_game_has_no_interval():
    found = aggregate_scores([[1.0, 2.0], [4.0]])
    assert {figure.interval for figure in found.values()} == {None}
    assert found["mean"].value == 2.75


def test_the_same_seed_gives_the_same_interval():
    scores = np.transpose(FIVE_RUNS)
    assert aggregate_scores(scores) == aggregate_scores(scores)
    assert aggregate_scores(scores, seed=1)["mean"].interval != aggregate_scores(scores)["mean"].interval


@pytest.mark.parametrize("scores", [[], [[1.0], []]])
def test_a_game_without_a_run_is_refused(scores):
    with pytest.raises(ValueError, match="must have a run of each game. Received: scores="):
        module.aggregate_scores(scores)
