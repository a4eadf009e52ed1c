"""Training returns by the million frames: worked by hand."""

import json

import numpy as np
import pytest

from dqn_lab.checkpoint import write_checkpoint
from dqn_lab.reports.iteration_returns import iteration_returns
from dqn_lab.run_record import read_run

# Epochs of 20 frames; 12 games scoring -36 in all end in the fill and 5 of -2 in epoch 1.
ROWS = """steps,frames,episodes,train_return_mean
10,40,17,-2
15,60,22,-3
20,80,22,
25,100,28,-2.5
30,120,29,4
"""


def make_run(folder, rows=ROWS, **counters):
    (folder / "config.json").write_text(json.dumps({"arguments": {}}), encoding="utf-8")
    (folder / "progress.csv").write_text(rows, encoding="utf-8")
    if counters:
        write_checkpoint(folder / "checkpoints" / str(counters["steps"]), lambda part: None, counters)
    return read_run(folder)


@pytest.mark.parametrize(("steps", "so_far"), [(15, -61), (20, -61), (25, -76), (30, -72)])
def test_the_fills_games_count_where_a_checkpoint_tells_the_sum(tmp_path, steps, so_far):
    found = iteration_returns(make_run(tmp_path, steps=steps, train_return_sum=so_far), 60)
    # 60 frames: (-36 - 10 - 15) / 22; 120 frames: (-15 + 4) / 7
    np.testing.assert_allclose(found.means, [-61 / 22, -11 / 7])
    assert (found.games, found.counts_fill) == ((22, 7), True)


def test_without_such_a_checkpoint_fill_and_first_epoch_are_left_out(tmp_path):
    inside = make_run(tmp_path, steps=17, train_return_sum=-1)  # saved inside an epoch: its games are in no row
    found = iteration_returns(inside, 60)
    np.testing.assert_allclose(found.means, [-3, -11 / 7])
    assert (found.games, found.counts_fill) == ((5, 7), False)


def test_a_checkpoint_that_tells_no_sum_says_nothing(tmp_path):
    assert not iteration_returns(make_run(tmp_path, steps=15), 60).counts_fill


def test_a_broken_checkpoint_is_passed_over(tmp_path):
    make_run(tmp_path, steps=15, train_return_sum=-61)
    run = make_run(tmp_path, steps=30, train_return_sum=-72)
    (tmp_path / "checkpoints" / "15" / "manifest.json").write_text("{}", encoding="utf-8")
    np.testing.assert_allclose(iteration_returns(run, 60).means, [-61 / 22, -11 / 7])


def test_an_iteration_in_which_no_game_ended_has_no_mean(tmp_path):
    rows = "steps,frames,episodes,train_return_mean\n10,40,17,-2\n20,80,17,\n30,120,18,4\n"
    found = iteration_returns(make_run(tmp_path, rows, steps=30, train_return_sum=-30), 40)
    np.testing.assert_equal(found.means, [-2, np.nan, 4])
    assert found.games == (17, 0, 1)


def test_only_whole_iterations_are_told(tmp_path):
    assert len(iteration_returns(make_run(tmp_path), 80).means) == 1


def test_an_iteration_that_ends_inside_an_epoch_is_refused(tmp_path):
    with pytest.raises(ValueError, match="with each 50 frames.*Received: no epoch's end at 50 frames"):
        iteration_returns(make_run(tmp_path), 50)


def test_a_run_without_rows_has_no_iterations(tmp_path):
    assert iteration_returns(make_run(tmp_path, rows="steps,frames\n")).means == ()
