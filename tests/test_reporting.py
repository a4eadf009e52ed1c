"""Figures of a report: which evaluation is told, intervals, games put together, published curves beside them."""

import math

import pytest
from ended_runs import leave_run

from dqn_lab.protocols import PROTOCOLS
from dqn_lab.reports.published_comparison import training_score
from dqn_lab.reports.reporting import make_report
from dqn_lab.run_record import read_run
from dqn_lab.scores import human_normalized

NATURE, DOPAMINE = PROTOCOLS["nature-2015"], PROTOCOLS["dopamine"]


def evaluated(*scores):
    """Rows of 100 steps, 400 frames and a minute each; None stands for no evaluation."""
    numbered = enumerate(scores, start=1)
    return [
        {"steps": 100 * n, "frames": 400 * n, "minutes": n, "eval_return_mean": "" if score is None else score}
        for n, score in numbered
    ]


def atari(directory, game, score, seed=0, protocol=NATURE, **arguments):
    arguments = {"game": game, "seed": seed, "protocol": protocol.name, **arguments}
    return leave_run(
        directory, evaluated(score), rundef="atari", protocol=protocol, arguments=arguments, log="ended after 1"
    )


def test_a_rows_score_is_the_mean_of_the_last_evaluations_with_students_interval(tmp_path):
    runs = [
        leave_run(
            tmp_path / "a", evaluated(9, None, 1, None), arguments={"seed": 1}, log="ended after 1", device="cpu"
        ),
        leave_run(tmp_path / "b", evaluated(2, 3), arguments={"seed": 2}, log="ended after 1", device="gpu"),
        leave_run(tmp_path / "c", evaluated(4, 3, 2), arguments={"seed": 3}, log="ended after 1", device="cpu"),
    ]
    report = make_report(runs)
    (row,) = report.rows
    mean, half = row.score
    assert mean == 2.0
    assert half == pytest.approx(4.302653 / math.sqrt(3), abs=1e-6)  # 1, 3, 2: standard deviation 1; t of 2 degrees
    assert row.best == pytest.approx((9 + 3 + 4) / 3)
    assert [(one.seed, one.steps, one.minutes, one.evaluations) for one in row.seeds] == [
        (1, 300, 3, 2),
        (2, 200, 2, 2),
        (3, 300, 3, 3),
    ]
    assert (row.devices, row.human, row.comparison) == (("cpu", "gpu"), None, None)
    assert (report.over_games, report.notes) == ((), ())


def test_what_is_not_finished_left_out_or_there_twice_is_said(tmp_path):
    begun = leave_run(tmp_path / "begun")
    one, copy = (leave_run(tmp_path / name, evaluated(1), log="stopped after 1") for name in ("one", "copy"))
    report = make_report([begun, one, copy, one / ".." / "one"])
    assert [len(row.seeds) for row in report.rows] == [2]
    assert report.notes == (
        f"{begun} has not been evaluated yet: it is left out",
        f"{copy} is stopped: its figures are those of its last evaluation so far",
        f"{one / '..' / 'one'} is stopped: its figures are those of its last evaluation so far",
        f"{copy} and {one / '..' / 'one'} have the same seed: they aren't independent",
    )


def test_runs_without_any_evaluation_are_refused(tmp_path):
    runs = [leave_run(tmp_path / name) for name in "ab"]
    with pytest.raises(ValueError, match="has not been evaluated yet, nor has any of 1 more. Received: run_directory="):
        make_report(runs)
    with pytest.raises(ValueError, match="A run directory has a config.json"):
        make_report([tmp_path])
    with pytest.raises(ValueError, match="of one run or more. Received"):
        make_report([])
    with pytest.raises(ValueError, match="`compare` must be dopamine or None. Received: compare='rainbow'"):
        make_report(runs, compare="rainbow")


def test_games_with_human_scores_are_put_together_by_configuration(tmp_path):
    scores = {"pong": (14.6, -20.7), "ALE/Breakout-v5": (1.7, 30.5), "freeway": (0.0, 29.6)}  # 1 and 0 each
    runs = [
        atari(tmp_path / f"{number}{seed}", game, score, seed)
        for number, (game, pair) in enumerate(scores.items())
        for seed, score in enumerate(pair)
    ]
    runs += [leave_run(tmp_path / "catch", evaluated(1), log="ended after 1")]
    runs += [atari(tmp_path / "double", "pong", 0, double=True)]
    runs = [*runs[:-1], runs[-1]]
    report = make_report(runs)
    (over,) = report.over_games
    assert (over.games, over.runs, over.protocol) == (("breakout", "freeway", "pong"), 6, "nature-2015")
    assert {name: figure.value for name, figure in over.figures.items()} == pytest.approx(
        {"mean": 0.5, "median": 0.5, "iqm": 0.5, "optimality_gap": 0.5}
    )
    low, high = over.figures["mean"].interval
    assert 0 < low < 0.5 < high < 1
    assert report.rows[0].human == pytest.approx((0, 1))
    assert human_normalized("pong", -20.7) == 0


def test_games_of_different_rules_are_not_put_together(tmp_path):
    runs = [atari(tmp_path / "a", "pong", 1), atari(tmp_path / "b", "breakout", 1, protocol=DOPAMINE)]
    report = make_report(runs)
    assert report.over_games == ()
    assert report.notes == (
        "no figures over the games of atari, which were played by different rules: dopamine; nature-2015",
    )


def test_games_of_different_configurations_or_numbers_of_seeds_are_told(tmp_path):
    apart = [atari(tmp_path / "a", "pong", 1), atari(tmp_path / "b", "breakout", 1, gamma=0.9)]
    assert make_report(apart).notes == ("no figures over games: no configuration was run on several of them",)
    assert make_report(apart[:1]).notes == ()
    uneven = [atari(tmp_path / "c", "breakout", 1), atari(tmp_path / "d", "breakout", 1, seed=1)]
    report = make_report([apart[0], *uneven])
    assert report.over_games[0].figures["mean"].interval is None
    assert report.notes == (
        "atari has more seeds on some games than on others: the IQM counts each run alike",
        "atari has a single seed on a game: its figures over games have no intervals",
    )


def training(*epochs):
    """Rows of (frames, episodes so far, mean of those that ended in it)."""
    return [
        {
            "steps": frames // 4,
            "frames": frames,
            "episodes": episodes,
            "train_return_mean": "" if mean is None else mean,
            "eval_return_mean": 0,
        }
        for frames, episodes, mean in epochs
    ]


@pytest.mark.parametrize(
    ("epochs", "frames", "score"),
    [
        # Epochs of a million, each a little longer, as workers make them.
        ([(1_000_144, 10, -20), (2_000_150, 20, -10), (3_000_100, 30, 0)], 2_000_000, -10),
        # Epochs of about half a million: games count, not epochs. 1 game at 8 and 3 at 4.
        ([(1_000_004, 5, 0), (1_500_000, 6, 8), (2_000_004, 9, 4), (2_500_000, 99, 100)], 2_000_000, 5),
        # Epochs that end with each million: the same, exactly.
        ([(1_000_000, 5, 0), (1_500_000, 6, 8), (2_000_000, 9, 4), (2_500_000, 99, 100)], 2_000_000, 5),
        # Epochs of three million.
        ([(3_000_000, 5, 3), (6_000_000, 10, 6)], 5_000_000, 6),
        # No game ended in one of two epochs, or in any.
        ([(1_000_000, 3, 9), (1_600_000, 5, 3), (2_000_004, 5, None)], 2_000_000, 3),
        ([(1_000_004, 0, None)], 1_000_000, math.nan),
    ],
)
def test_training_games_of_a_million_frames_are_weighed_by_their_number(tmp_path, epochs, frames, score):
    run = leave_run(tmp_path / "run", training(*epochs))
    assert training_score(read_run(run), frames) == pytest.approx(score, nan_ok=True)


def test_where_a_checkpoint_tells_it_the_fills_games_count(tmp_path):
    counters = {"steps": 250_000, "train_return_sum": -150}  # 5 games of the fill and 5 of the epoch
    run = leave_run(tmp_path / "run", training((1_000_000, 10, -10), (1_500_000, 20, 0)), counters=counters)
    assert training_score(read_run(run), 1_000_000) == -15


def test_the_published_point_is_the_last_that_all_seeds_have_reached(tmp_path):
    short = training((1_000_000, 5, -20), (2_000_000, 10, -18), (4_900_000, 20, -9))
    long = training((1_000_000, 5, -20), (4_000_004, 10, -7), (9_000_000, 20, 3))
    game = {"game": "ALE/Pong-v5"}
    runs = [
        leave_run(tmp_path / str(seed), rows, protocol=DOPAMINE, arguments=game | {"seed": seed}, log="ended after 1")
        for seed, rows in enumerate((short, long))
    ]
    report = make_report(runs, compare="dopamine")
    found = report.rows[0].comparison
    assert (found.frames, found.scores, found.score) == (4_000_000, (-9, -7), -8)
    assert (found.mean, found.low, found.high) == (-13.736, -16.022, -11.627)  # 4M frames of learning_curves.csv
    assert (found.same_rules, report.notes) == (True, ())


def test_where_nothing_published_can_stand_beside_it_the_reason_is_told(tmp_path):
    runs = [
        leave_run(tmp_path / "catch", evaluated(1), log="ended after 1"),
        atari(tmp_path / "short", "pong", 1),
        atari(tmp_path / "unknown", "tetris", 1),
    ]
    report = make_report(runs, compare="dopamine")
    assert [row.comparison for row in report.rows] == [None] * 3
    assert report.notes == (
        "pong, atari: short of the first published point",
        "tetris, atari: no published curve",
        "toy, toy: no published curve",
    )
    long = leave_run(tmp_path / "long", training((1_000_000, 5, -20)), protocol=NATURE, arguments={"game": "pong"})
    assert not make_report([long], compare="dopamine").rows[0].comparison.same_rules
