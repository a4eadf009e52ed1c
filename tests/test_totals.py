"""Totals of a run: the first one reached ends it, steps counted in updates."""

import math
import sys

import pytest

from dqn_lab.totals import StepTotals, Totals


class Sequence:
    replay_min_steps, train_period_steps = 100, 4

    def __len__(self):
        return 10


def totals(steps=math.inf, updates=math.inf, minutes=math.inf):
    return Totals(Sequence(), steps=steps, updates=updates, minutes=minutes)


@pytest.mark.parametrize(
    ("given", "updates", "epochs"),
    [
        ({"updates": 35}, 35, 4),
        ({"steps": 140}, 10, 1),  # 100 of the fill, then 4 an update
        ({"steps": 141}, 11, 2),
        ({"steps": 140, "updates": 3}, 3, 1),
        ({"steps": 1}, 1, 1),
        ({"minutes": 5}, math.inf, sys.maxsize),
    ],
)
def test_steps_are_counted_in_updates_and_updates_in_epochs(given, updates, epochs):
    one = totals(**given)
    assert (one.updates, one.epochs) == (updates, epochs)


def test_they_are_told_as_they_were_given():
    assert totals(steps=1000, minutes=2.5).describe() == "ends at: 1,000 steps or 2.5 minutes"
    assert totals().describe() == "ends at: no limit; Ctrl-C stops and saves"
    assert totals(steps=1000).config() == {"steps": 1000, "updates": math.inf, "minutes": math.inf}


@pytest.mark.parametrize("name", ["steps", "updates", "minutes"])
@pytest.mark.parametrize("value", [0, -1, math.nan, True, "7"])
def test_a_total_is_above_0(name, value):
    with pytest.raises(ValueError, match=f"`total_{name}` must be above 0. Received: total_{name}="):
        totals(**{name: value})


def test_the_total_that_was_reached_is_named_by_its_option():
    at = {"updates": 10, "minutes": 2.0}
    assert totals(updates=10).option_reached(at) == "--updates"
    assert totals(steps=140).option_reached(at) == "--steps"
    assert totals(steps=140, updates=50).option_reached(at) == "--steps"
    assert totals(minutes=2, updates=50).option_reached(at) == "--minutes"


def test_a_run_without_replay_counts_its_steps():
    one = StepTotals(steps=25, minutes=3, epoch_steps=10)
    assert one.epochs == 3 and one.describe() == "ends at: 25 steps or 3 minutes"
    assert one.config() == {"steps": 25, "minutes": 3}
    assert StepTotals(steps=math.inf, minutes=3, epoch_steps=10).epochs == sys.maxsize


@pytest.mark.parametrize(
    ("counters", "reached"),
    [
        ({"steps": 24, "minutes": 2.9, "epochs": 2}, False),
        ({"steps": 25, "minutes": 0.0, "epochs": 2}, True),
        ({"steps": 24, "minutes": 3.0, "epochs": 2}, True),
        ({"steps": 31, "minutes": 0.0, "epochs": 2}, False),  # the third epoch's end is left
        ({"steps": 31, "minutes": 0.0, "epochs": 3}, True),
    ],
)
def test_an_end_is_reached_once_the_last_whole_epoch_has_had_its_own(counters, reached):
    assert StepTotals(steps=25, minutes=3, epoch_steps=10).are_reached(counters) is reached


@pytest.mark.parametrize(
    ("counters", "reached"),
    [
        ({"updates": 34, "minutes": 0.0, "epochs": 3}, False),
        ({"updates": 35, "minutes": 0.0, "epochs": 3}, True),
        ({"updates": 41, "minutes": 0.0, "epochs": 3}, False),
    ],
)
def test_with_a_replay_the_updates_decide(counters, reached):
    assert totals(updates=35).are_reached(counters | {"steps": 10**9}) is reached
