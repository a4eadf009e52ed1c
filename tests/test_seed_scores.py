"""Scores over seeds: read from files that may be torn, and statistics worked by hand."""

import math

import pytest

from dqn_lab.seed_scores import Reached, mean_interval, read_reached, score_table

HEADER = "steps,frames,minutes,eval_return_mean,td_error\n"


def reached(tmp_path, text):
    path = tmp_path / "progress.csv"
    path.write_text(text)
    return read_reached(path)


def test_the_last_and_the_best_evaluation_are_told_and_how_far_the_run_is(tmp_path):
    rows = "40,160,0.5,-3.5,0.1\n80,320,1.25,7,0.1\n120,480,1.5,2.5,0.1\n160,640,2,,\n"
    assert reached(tmp_path, HEADER + rows) == Reached(steps=160, minutes=2, last=2.5, best=7)


@pytest.mark.parametrize("torn", ["80,320,9,9", "80,3", '80,"', "\0\0\0\0"])
def test_a_row_that_a_killed_process_left_unfinished_is_passed_over(tmp_path, torn):
    assert reached(tmp_path, HEADER + "40,160,0.5,1,0.1\n" + torn) == Reached(steps=40, minutes=0.5, last=1, best=1)


@pytest.mark.parametrize("text", ["", HEADER, HEADER + "40,160,0.5,nan,-inf\n", "a,b\n1,2\n"])
def test_a_score_that_is_none_is_none(tmp_path, text):
    assert reached(tmp_path, text).last is None
    assert reached(tmp_path, text).best is None


def test_a_run_that_has_written_nothing_has_reached_nothing(tmp_path):
    assert read_reached(tmp_path / "progress.csv") == Reached()


def test_the_interval_is_students():
    # Standard deviation 1, three scores; 4.302653 is in every table of t for 2 degrees of freedom, 97.5%.
    mean, half = mean_interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half == pytest.approx(4.302653 / math.sqrt(3), abs=1e-6)
    # 2.919986 for 95%: an interval of 90% has 5% on either side.
    assert mean_interval([1.0, 2.0, 3.0], 0.9)[1] == pytest.approx(2.919986 / math.sqrt(3), abs=1e-6)


def test_equal_scores_have_no_spread_and_one_score_has_no_interval():
    assert mean_interval([0.5, 0.5]) == (0.5, 0.0)
    mean, half = mean_interval([4.0])
    assert mean == 4.0
    assert math.isnan(half)


def test_the_table_has_mean_and_interval_of_the_seeds_with_a_score():
    runs = [
        (0, Reached(50_000, 1.25, 1, 3), "ended"),
        (11, Reached(2_000, 0.5, 2, 3), "stopped"),
        (2, Reached(100, 0.01, None, None), "killed by SIGKILL"),
        (3, Reached(50_000, 1.5, 3, 3), "ended"),
        (4, Reached(), "not begun"),
    ]
    assert score_table(runs) == [
        "seed   steps  minutes     last     best  run",
        "   0  50,000      1.2     1.00     3.00  ended",
        "  11   2,000      0.5     2.00     3.00  stopped",
        "   2     100      0.0        -        -  killed by SIGKILL",
        "   3  50,000      1.5     3.00     3.00  ended",
        "   4       -        -        -        -  not begun",
        "mean                      2.00     3.00",
        " 95%                   +/-2.48  +/-0.00",
        "95%: Student's t interval of the mean, seeds with a score: 3 of 5",
    ]


def test_the_table_of_one_score_has_no_interval_and_of_none_no_mean():
    assert score_table([(0, Reached(10, 1, 2, 3), "ended")])[2:4] == [
        "mean                  2.00  3.00",
        " 95%                     -     -",
    ]
    assert len(score_table([(0, Reached(10, 1), "ended"), (1, Reached(), "error 1")])) == 3


def test_the_newest_checkpoint_tells_more_than_the_last_row(tmp_path):
    (tmp_path / "progress.csv").write_text("steps,minutes,eval_return_mean\n100,0.5,3\n")
    reached = read_reached(tmp_path / "progress.csv", {"steps": 130, "minutes": 0.75})
    assert reached == Reached(steps=130, minutes=0.75, last=3.0, best=3.0)
    assert read_reached(tmp_path / "none.csv", {"steps": 130, "minutes": 0.75}) == Reached(steps=130, minutes=0.75)
