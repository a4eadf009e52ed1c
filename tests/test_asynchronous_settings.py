"""Settings of asynchronous runs: what falls how, and what is refused."""

import math

import numpy as np
import pytest

from dqn_lab.asynchronous.settings import AsynchronousSettings


def test_the_papers_settings_are_the_defaults():
    settings = AsynchronousSettings()
    assert (settings.t_max, settings.learning_rate, settings.gradient_clip) == (5, 7e-4, 40.0)
    assert (settings.rmsprop, settings.rmsprop_decay, settings.rmsprop_epsilon) == ("shared", 0.99, 0.1)
    assert (settings.target_period_steps, settings.epsilon_start, settings.epsilon_steps) == (10_000, 1.0, 1_000_000)


def test_the_learning_rate_falls_to_0_in_a_straight_line_or_stays():
    falling = AsynchronousSettings(learning_rate=0.5, anneal_steps=100)
    assert [falling.learning_rate_at(steps) for steps in (0, 25, 50, 99, 100, 10**9)] == pytest.approx(
        [0.5, 0.375, 0.25, 0.005, 0, 0]
    )
    assert falling.learning_rate_at(100) == 0
    assert AsynchronousSettings(learning_rate=0.5).learning_rate_at(10**12) == 0.5


def test_final_epsilons_are_drawn_with_the_papers_odds():
    generator = np.random.default_rng(0)
    drawn = [AsynchronousSettings().draw_final_epsilon(generator) for _ in range(4000)]
    assert set(drawn) == {0.1, 0.01, 0.5}
    shares = [drawn.count(epsilon) / 4000 for epsilon in (0.1, 0.01, 0.5)]
    assert shares == pytest.approx([0.4, 0.3, 0.3], abs=0.03)


def test_a_final_epsilon_that_is_given_is_every_workers_and_moves_no_other_draw():
    drawing, given = np.random.default_rng(0), np.random.default_rng(0)
    AsynchronousSettings().draw_final_epsilon(drawing)
    assert AsynchronousSettings(epsilon_end=0.25).draw_final_epsilon(given) == 0.25
    assert AsynchronousSettings(epsilon_end=0.0).draw_final_epsilon(given) == 0.0
    drawing.random()
    assert drawing.random() == given.random()


def test_epsilon_falls_to_a_workers_own_end():
    schedule = AsynchronousSettings(epsilon_start=0.9, epsilon_steps=10).epsilon_schedule(0.5)
    assert [schedule(steps) for steps in (0, 5, 10, 11)] == pytest.approx([0.9, 0.7, 0.5, 0.5])
    assert AsynchronousSettings(epsilon_steps=0).epsilon_schedule(0.1)(0) == 0.1


@pytest.mark.parametrize(
    ("given", "error", "rule"),
    [
        ({"num_workers": 0}, ValueError, "`num_workers` must be at least 1. Received: num_workers=0"),
        ({"t_max": 0}, ValueError, "`t_max` must be at least 1. Received: t_max=0"),
        ({"t_max": 5.0}, TypeError, "`t_max` must be an integer. Received: t_max=5.0"),
        ({"seed": -1}, ValueError, "`seed` must be at least 0. Received: seed=-1"),
        ({"target_period_steps": 0}, ValueError, "`target_period_steps` must be at least 1. Rec"),
        ({"epsilon_steps": -1}, ValueError, "`epsilon_steps` must be at least 0. Received: epsilon_steps=-1"),
        ({"epsilon_start": 1.1}, ValueError, "`epsilon_start` must lie within 0 and 1. Received: epsilon_start=1.1"),
        ({"epsilon_end": -0.1}, ValueError, "`epsilon_end` must lie within 0 and 1. Received: epsilon_end=-0.1"),
        ({"rmsprop": "centred"}, ValueError, "`rmsprop` must be one of shared, per_worker, momentum_sgd. Received: "),
        ({"rmsprop_decay": 1.0}, ValueError, "`rmsprop_decay` must be below 1. Received: rmsprop_decay=1.0"),
        ({"rmsprop_epsilon": 0}, ValueError, "`rmsprop_epsilon` must be above 0, and finite. Received: "),
        ({"rmsprop_start": -1}, ValueError, "`rmsprop_start` must be at least 0, and finite. Received: rmsprop_start"),
        ({"learning_rate": 0.0}, ValueError, "`learning_rate` must be above 0, and finite. Received: learning_rate=0"),
        ({"learning_rate": math.inf}, ValueError, "`learning_rate` must be above 0, and finite. Received: "),
        ({"learning_rate": math.nan}, ValueError, "`learning_rate` must be above 0, and finite. Received: "),
        ({"learning_rate": "7e-4"}, TypeError, "`learning_rate` must be a number. Received: learning_rate='7e-4'"),
        ({"gradient_clip": -1}, ValueError, "`gradient_clip` must be at least 0, and finite. Received: gradient_clip"),
        ({"gradient_clip": True}, TypeError, "`gradient_clip` must be a number. Received: gradient_clip=True"),
        ({"anneal_steps": 0}, ValueError, "`anneal_steps` must be above 0. Received: anneal_steps=0"),
    ],
)
def test_wrong_settings(given, error, rule):
    with pytest.raises(error) as raised:
        AsynchronousSettings(**given)
    assert str(raised.value).startswith(rule)


def test_a_learning_rate_that_could_carry_parameters_out_of_float32_is_refused():
    AsynchronousSettings(learning_rate=1e6)
    with pytest.raises(ValueError, match=r"^`learning_rate` must be at most 1e\+06. Received: learning_rate=1e\+39$"):
        AsynchronousSettings(learning_rate=1e39)
