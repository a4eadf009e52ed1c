"""Curves of runs: their points, their means and ranges over seeds, worked by hand, and who is left out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from written_runs import write_run

from dqn_lab.plots.curve_groups import Curve, group_curves, mean_and_range
from dqn_lab.run_record import read_run

SCORE = "eval_return_mean"


def curve(*points):
    return Curve(*np.array(points, np.float64).T)


def curves_of(*directories, x="steps", y=SCORE):
    """Groups, and what was said."""
    said = []
    return group_curves([read_run(one) for one in directories], x, y, said.append), said


def test_the_mean_is_where_all_have_data_each_interpolated():
    x, mean, low, high = mean_and_range([curve((0, 0), (10, 10), (20, 0)), curve((5, 1), (15, 3), (40, 3))])
    np.testing.assert_array_equal(x, [5, 10, 15, 20])
    np.testing.assert_allclose(low, [1, 2, 3, 0])  # 5 and 1; 10 and 2; 5 and 3; 0 and 3
    np.testing.assert_allclose(high, [5, 10, 5, 3])
    np.testing.assert_allclose(mean, [3, 6, 4, 1.5])


def test_one_curve_is_its_own_mean_and_range():
    for found in mean_and_range([curve((1, 4), (3, 2))])[1:]:
        np.testing.assert_array_equal(found, [4, 2])


def test_curves_that_share_no_range_have_no_mean():
    for found in mean_and_range([curve((0, 1), (2, 1)), curve((3, 1), (4, 1))]):
        assert found.shape == (0,)


POINTS = st.dictionaries(st.integers(0, 20), st.integers(-9, 9), min_size=1).map(lambda found: sorted(found.items()))


@given(st.lists(POINTS, min_size=1, max_size=4))
def test_mean_and_range_are_those_of_a_model_point_by_point(runs):
    def value(points, at):
        for (x0, y0), (x1, y1) in zip(points, points[1:], strict=False):
            if x0 <= at <= x1:
                return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
        return dict(points)[at]

    places = {x for points in runs for x, _ in points}
    shared = sorted(x for x in places if all(points[0][0] <= x <= points[-1][0] for points in runs))
    x, mean, low, high = mean_and_range([curve(*points) for points in runs])
    assert x.tolist() == shared
    values = [[value(points, at) for points in runs] for at in shared]
    np.testing.assert_allclose(mean, [sum(one) / len(one) for one in values], atol=1e-12)
    np.testing.assert_allclose(low, [min(one) for one in values], atol=1e-12)
    np.testing.assert_allclose(high, [max(one) for one in values], atol=1e-12)


def test_seeds_are_one_group_and_another_argument_is_another(tmp_path):
    rows = {"steps": [10, 20], SCORE: [1, 3]}
    runs = [write_run(tmp_path / f"{seed}-{rate}", rows, seed=seed, rate=rate) for rate in (1, 2) for seed in (0, 1, 2)]
    groups, said = curves_of(*runs)
    assert [group.runs.configuration for group in groups] == ["catch rate=1", "catch rate=2"]
    assert [len(group.curves) for group in groups] == [3, 3]
    assert said == []


def test_a_point_needs_both_figures_and_points_ascend(tmp_path):
    rows = {"steps": [10, 20, 30, 40, "", 5], SCORE: [1, "", "nan", 4, 5, 6]}
    ((group,), _) = curves_of(write_run(tmp_path / "run", rows))
    np.testing.assert_array_equal(group.curves[0].x, [5, 10, 40])
    np.testing.assert_array_equal(group.curves[0].y, [6, 1, 4])


def test_the_human_normalized_score_is_by_the_games_published_scores(tmp_path):
    rows = {"steps": [1, 2, 3], SCORE: [-20.7, 14.6, ""]}
    run = write_run(tmp_path / "pong", rows, rundef="atari_dqn", protocol="nature-2015", game="pong")
    other = write_run(tmp_path / "catch", rows)
    ((group,), said) = curves_of(other, run, y="human_normalized")
    np.testing.assert_allclose(group.mean, [0, 1])
    assert said == [f"{other} plays no Atari game, which has no published human score: it is left out"]


def test_a_run_without_a_point_is_left_out_where_another_has_one(tmp_path):
    full = write_run(tmp_path / "full", {"steps": [1], SCORE: [2], "loss": [3]})
    begun = write_run(tmp_path / "begun", {"steps": [], SCORE: []})
    unwritten = write_run(tmp_path / "unwritten", {"steps": [], SCORE: []})
    (unwritten / "progress.csv").unlink()
    unscored = write_run(tmp_path / "unscored", {"steps": [1], SCORE: [""]})
    ((group,), said) = curves_of(begun, unwritten, unscored, full)
    assert group.curves[0].y.tolist() == [2]
    assert [line.removeprefix(f"{tmp_path}/") for line in said] == [
        "begun has no epoch behind it yet: it is left out",
        "unwritten has no epoch behind it yet: it is left out",
        "unscored has no value of eval_return_mean yet: it is left out",
    ]


@pytest.mark.parametrize(
    ("x", "y", "error"),
    [
        ("steps", SCORE, "run has no value of eval_return_mean yet, nor can 1 more be drawn. Received: x='steps'"),
        ("steps", "q_mean", "has no column q_mean, nor"),
        ("minutes", "loss", "has no column minutes, nor"),
        ("steps", "human_normalized", "run plays no Atari game, which has no published human score, nor"),
        ("steps", "eval_return_men", "did you mean 'eval_return_mean'. Received: y='eval_return_men'"),
    ],
)
def test_where_there_is_nothing_to_draw_one_line_says_why(tmp_path, x, y, error):
    runs = [write_run(tmp_path / name, {"steps": [1], "loss": [2], SCORE: [""]}) for name in ("run", "other")]
    with pytest.raises(ValueError, match=error.replace("'. R", r"'\? R")):
        curves_of(*runs, x=x, y=y)
