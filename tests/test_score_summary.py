"""Summaries of evaluations: figures worked by hand, and what there is none of is null, never NaN."""

import json

import numpy as np
import pytest

from dqn_lab.evaluation import NO_RESULT, EvaluationResult
from dqn_lab.protocols import get_protocol
from dqn_lab.score_summary import ScoreSummary, frames_per_step, mean_bootstrap_interval, summary_table

KEYS = (
    "returns lengths mean std median min max interval episodes cut capped protocol epsilon human_normalized "
    "human_table run_directory which steps seed frames"
).split()


def summary(returns, lengths=None, truncated=None, cut=0, protocol="nature-2015", game="pong", which="best"):
    lengths = tuple(lengths or (10,) * len(returns))
    result = EvaluationResult(tuple(returns), lengths, tuple(truncated or (False,) * len(returns)), cut)
    return ScoreSummary(result, "runs/mine", which, 5_000, get_protocol(protocol), 0.05, 3, game)


def test_the_figures_are_those_of_the_games():
    told = summary([-21.0, 14.6, 14.6, 20.0], (5, 6, 7, 8), (False, True, False, False), cut=1).as_json()
    interval = told.pop("interval")
    assert told == {
        "run_directory": "runs/mine",
        "which": "best",
        "steps": 5_000,
        "protocol": "nature-2015",
        "epsilon": 0.05,
        "seed": 3,
        "episodes": 4,
        "mean": pytest.approx(28.2 / 4),
        "std": pytest.approx(np.std([-21.0, 14.6, 14.6, 20.0])),
        "median": 14.6,
        "min": -21.0,
        "max": 20.0,
        "human_normalized": pytest.approx((7.05 + 20.7) / 35.3),
        "human_table": "dqn_zoo",
        "cut": 1,
        "capped": 1,
        "frames": 26 * 4,
        "returns": [-21.0, 14.6, 14.6, 20.0],
        "lengths": [5, 6, 7, 8],
    }
    assert -21.0 <= interval[0] < 7.05 < interval[1] <= 20.0


@pytest.mark.parametrize("returns", [(), (3.0,), (3.0, 3.0, 3.0)])
def test_degenerate_games_give_valid_json(returns):
    told = json.loads(json.dumps(summary(returns, protocol="classic-control", game=None).as_json(), allow_nan=False))
    assert set(told) == set(KEYS)
    some = 3.0 if returns else None
    assert [told[name] for name in ("mean", "median", "min", "max")] == [some] * 4
    assert told["std"] == (0.0 if returns else None)
    assert told["interval"] == ([3.0, 3.0] if len(returns) > 1 else None)
    assert told["human_normalized"] is None


def test_a_score_of_no_game_has_no_share_of_peoples():
    assert summary([]).as_json()["human_normalized"] is None


def test_the_interval_is_the_same_each_time_and_that_of_the_mean():
    returns = tuple(np.random.default_rng(1).normal(10.0, 2.0, 400))
    low, high = mean_bootstrap_interval(returns)
    assert mean_bootstrap_interval(returns) == (low, high)
    half = 1.96 * np.std(returns) / 20  # of so many games the mean is normal
    assert (low, high) == pytest.approx((np.mean(returns) - half, np.mean(returns) + half), abs=0.1 * half)


def test_two_games_resampled_by_hand():
    # Means 0, 1/2 and 1 with odds 1/4, 1/2 and 1/4: both ends are more than 2.5% likely.
    assert mean_bootstrap_interval((0.0, 1.0)) == (0.0, 1.0)


def test_a_drawn_frame_skip_counts_with_its_mean():
    protocol = get_protocol("breakout-v0").override(frame_skip=(2, 5))  # 2, 3 or 4
    assert (frames_per_step(protocol), frames_per_step(None)) == (3, 1)
    assert frames_per_step(get_protocol("breakout-v0").override(frame_skip=(3, 5))) == 3.5


def test_the_lines_are_aligned_and_say_whose_people_are_meant():
    lines = summary([1.0, 2.5], (5, 1_200)).lines()
    assert lines[:3] == [
        "run       runs/mine",
        "agent     best, of 5,000 steps",
        "protocol  nature-2015, epsilon 0.05",
    ]
    assert lines[3:] == [
        "games     2 of seed 3; 0 cut, 0 capped",
        "return    1.75 +/- 0.75, median 1.75, min 1, max 2.50",
        "95%       1 to 2.50 (bootstrap interval of the mean)",
        "length    602.50 steps, min 5, max 1,200",
        "human     63.6% of the way from the random policy to people (DQN Zoo)",
    ]


def test_where_no_game_was_finished_the_lines_say_so():
    nothing = ScoreSummary(NO_RESULT, "runs/mine", "7", 7, None, 0.0, 0)
    assert nothing.lines()[1:] == [
        "agent     that of 7 steps",
        "protocol  none, epsilon 0",
        "games     0 of seed 0; 0 cut, 0 capped",
        "return    none: no game was finished",
    ]


def test_the_table_has_a_row_for_each_agent():
    rows = [summary([], which="100"), summary([1.0, 1.0]), summary([1.0], which="9000")]
    assert summary_table(rows) == [
        "runs/mine: nature-2015, epsilon 0.05, seed 3",
        "steps  agent  mean  std  median  min  max     95%  games  cut  capped  human",
        "5,000            -    -       -    -    -       -      0    0       0      -",
        "5,000   best     1    0       1    1    1  1 to 1      2    0       0  61.5%",
        "5,000            1    0       1    1    1       -      1    0       0  61.5%",
        "95%: bootstrap interval of the mean; human: share of the way to people's scores in DQN Zoo",
    ]
    plain = summary_table([summary([1.0], protocol="classic-control", game=None)])
    assert "human" not in "".join(plain)
