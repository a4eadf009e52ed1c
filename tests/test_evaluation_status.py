"""How far an evaluation is: games, steps and frames of scripted lanes, counted by hand."""

import math

from scripted_twin import ScriptedTwin

from dqn_lab.evaluation import evaluate
from dqn_lab.evaluation_status import EvaluationStatus


def told(limits, *, tick=1.0, num_envs=2, **given):
    """What is shown of games of two and three steps in turn, the clock a tick further at each decision."""
    times, shown = iter(range(1_000)), []
    twin = ScriptedTwin(lambda policy, number: ([1.0] * (2 + number % 2), False), num_envs)
    status = EvaluationStatus(
        twin, limits, "best", lambda *words: shown.append(words), clock=lambda: tick * next(times), **given
    )
    evaluate(twin, **limits, watch=status)
    return shown


def test_games_are_counted_as_they_end():
    # Lane 0: games 0 (2 steps) and 2 (2); lane 1: game 1 (3).
    assert told({"num_episodes": 3, "num_max_iter": math.inf}) == [
        ("best: 0 of 3 games, 0 steps", 0.0),
        ("best: 0 of 3 games, 2 steps", 0.0),
        ("best: 1 of 3 games, 4 steps", 1 / 3),
        ("best: 2 of 3 games, 6 steps", 2 / 3),
        ("best: 3 of 3 games, 8 steps", 1.0),
    ]


def test_never_more_games_than_were_asked_for():
    # Game 0 takes two steps and game 1 three; lane 2 has ended game 2 by then.
    shown = told({"num_episodes": 2, "num_max_iter": math.inf}, num_envs=3)
    assert [text.split(", ")[0] for text, _ in shown] == [f"best: {n} of 2 games" for n in (0, 0, 2, 2)]
    assert max(fraction for _, fraction in shown) == 1.0


def test_frames_are_those_of_the_steps_and_no_more_than_there_are():
    shown = told({"num_episodes": math.inf, "num_max_iter": 5}, frames_per_step=4)
    assert shown[:2] == [("best: 0 of 20 frames", 0.0), ("best: 8 of 20 frames", 2 / 5)]
    assert shown[-1] == ("best: 20 of 20 frames", 1.0)


def test_it_is_told_twice_a_second():
    shown = told({"num_episodes": 3, "num_max_iter": math.inf}, tick=0.25)
    assert [text for text, _ in shown] == [
        "best: 0 of 3 games, 0 steps",
        "best: 1 of 3 games, 4 steps",
        "best: 3 of 3 games, 8 steps",
    ]
