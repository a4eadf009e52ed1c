"""Limits: the first total that is reached ends the run, and so does a request."""

import math

import pytest
from fake_run import FakeClock, FakeEvaluation, FakeFit
from hypothesis import given
from hypothesis import strategies as st

from dqn_lab.callbacks.limits import Limits, updates_for_steps


def run(clock=None, before=0, others=(), **totals):
    clock = clock or FakeClock()
    limits = Limits(minutes=clock.minutes, **totals)
    fit = FakeFit([*others, limits], clock)
    fit.agent.updates = before
    fit.run(5)
    return fit.agent.updates, limits


@pytest.mark.parametrize(
    ("totals", "updates"),
    [
        ({}, 20),
        ({"total_updates": 7}, 7),
        ({"total_updates": 8}, 8),
        ({"total_updates": 1}, 1),
        ({"total_minutes": 5 / 60}, 5),  # an update takes a second
        ({"total_minutes": 5 / 60, "total_updates": 9}, 5),
        ({"total_minutes": 9 / 60, "total_updates": 5}, 5),
    ],
)
def test_the_first_total_reached_ends_the_run(totals, updates):
    assert run(**totals)[0] == updates


def test_totals_are_of_the_run_not_of_the_fit():
    assert run(before=10, total_updates=13)[0] == 13


def test_a_request_ends_it_after_the_update_in_progress():
    clock = FakeClock()
    updates, limits = run(clock, stop_requested=lambda: clock.now >= 6)
    assert updates == 6
    assert limits.interrupted


def test_a_request_during_the_evaluation_needs_no_further_update():
    evaluation = FakeEvaluation([1.0] * 5)
    evaluation.clock = clock = FakeClock()  # 1,000 s each
    updates, limits = run(clock, others=[evaluation], stop_requested=lambda: clock.now > 100)
    assert updates == 4
    assert limits.interrupted


def test_minutes_that_end_during_the_evaluation_need_no_further_update():
    evaluation = FakeEvaluation([1.0] * 5)
    evaluation.clock = clock = FakeClock()  # 1,000 s each
    updates, limits = run(clock, others=[evaluation], total_minutes=10)
    assert updates == 4
    assert not limits.interrupted


def test_an_epochs_end_that_is_made_up_for_ends_the_run_at_its_total():
    clock = FakeClock()
    limits = Limits(total_updates=4, minutes=clock.minutes)
    fit = FakeFit([limits], clock)
    fit.agent.updates = 4
    fit.agent.losses = [0.5]
    fit.finish_epoch(0)
    assert fit.agent.stop_training


def test_a_run_that_ends_by_itself_was_not_interrupted():
    assert not run(total_updates=3)[1].interrupted


def test_the_fraction_is_of_the_total_that_is_nearest():
    _, limits = run(total_updates=40, total_minutes=10 / 60)
    assert limits.fraction() == 1.0
    _, limits = run(total_updates=40)
    assert limits.fraction() == 0.5
    _, limits = run()
    assert limits.fraction() == 0.0


@pytest.mark.parametrize("name", ["total_updates", "total_minutes"])
@pytest.mark.parametrize("total", [0, -1, math.nan])
def test_a_total_must_be_above_0(name, total):
    with pytest.raises(ValueError, match=f"`{name}` must be above 0. Received: {name}={total}"):
        Limits(minutes=float, **{name: total})


@pytest.mark.case("B022")
def test_steps_become_the_update_at_which_they_have_been_made():
    assert updates_for_steps(10_000, 0, 4) == 2500
    assert updates_for_steps(10_001, 0, 4) == 2501
    assert updates_for_steps(500, 100, 4) == 100
    assert updates_for_steps(50, 100, 4) == 1
    assert math.isinf(updates_for_steps(math.inf, 100, 4))


@given(st.integers(1, 10**6), st.integers(0, 10**5), st.integers(1, 64))
def test_one_update_earlier_has_made_fewer_steps(total, fill, period):
    updates = updates_for_steps(total, fill, period)
    assert fill + updates * period >= total
    assert updates == 1 or fill + (updates - 1) * period < total
