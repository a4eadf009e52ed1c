"""Schedules: values worked by hand, and what holds for any schedule."""

import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dqn_lab.schedules import LinearSchedule


@pytest.mark.case("B030")
@pytest.mark.parametrize(
    ("steps", "value"),
    [(0, 1.0), (250_000, 0.775), (500_000, 0.55), (1_000_000, 0.1), (2_000_000, 0.1)],
)
def test_a_million_steps_are_agent_steps(steps, value):
    schedule = LinearSchedule(1.0, 0.1, decay_steps=1_000_000)
    assert schedule(steps) == pytest.approx(value, abs=1e-12)


@pytest.mark.case("B104")
def test_a_loaded_schedule_goes_on_at_the_step_it_is_asked_for():
    schedule = LinearSchedule(1.0, 0.1, decay_steps=1_000_000)
    schedule(250_000)
    loaded = pickle.loads(pickle.dumps(schedule))
    assert loaded == schedule
    assert loaded(250_000) == pytest.approx(0.775, abs=1e-6)
    assert loaded(2_000_000) == 0.1
    assert loaded(0) == 1.0


def test_the_line_begins_at_begin_steps():
    schedule = LinearSchedule(1.0, 0.0, begin_steps=100, decay_steps=10)
    assert [schedule(steps) for steps in (0, 100, 101, 105, 109, 110, 111)] == pytest.approx(
        [1.0, 1.0, 0.9, 0.5, 0.1, 0.0, 0.0]
    )


def test_no_decay_steps_are_a_jump():
    schedule = LinearSchedule(1.0, 0.1, begin_steps=5, decay_steps=0)
    assert [schedule(4), schedule(5), schedule(6)] == [1.0, 0.1, 0.1]


values = st.floats(0.0, 1.0)
counts = st.integers(0, 10**7)


@given(values, values, counts, counts, counts, counts)
def test_values_lie_between_the_ends_and_never_turn_back(begin, end, start, decay, one, other):
    schedule = LinearSchedule(begin, end, begin_steps=start, decay_steps=decay)
    first, second = schedule(min(one, other)), schedule(max(one, other))
    low, high = sorted((begin, end))
    assert low <= first <= high
    assert low <= second <= high
    assert first <= second if begin <= end else first >= second
    assert schedule(start + decay) == end
    assert decay == 0 or schedule(start) == begin


def test_rounding_never_passes_the_end_value():
    schedule = LinearSchedule(1.0, 0.1, decay_steps=10**17)
    assert schedule(10**17 - 1) == 0.1  # unguarded: 0.09999999999999998


def test_the_configuration_makes_an_equal_schedule():
    schedule = LinearSchedule(1.0, 0.1, begin_steps=50_000, decay_steps=250_000)
    assert LinearSchedule(**schedule.get_config()) == schedule
    assert repr(schedule) == ("LinearSchedule(begin_value=1.0, end_value=0.1, begin_steps=50000, decay_steps=250000)")


def test_values_are_plain_floats():
    assert type(LinearSchedule(1, 0, decay_steps=10)(0)) is float
    assert type(LinearSchedule(1, 0, decay_steps=10)(10)) is float


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"decay_steps": -1}, "at least 0 agent steps. Received: decay_steps=-1"),
        ({"begin_steps": -2}, "at least 0 agent steps. Received: begin_steps=-2"),
        ({"decay_steps": math.inf}, "must be finite. Received: decay_steps=inf"),
        ({"end_value": math.nan}, "must be finite. Received: end_value=nan"),
    ],
)
def test_bad_arguments_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        LinearSchedule(**{"begin_value": 1.0, "end_value": 0.1, "decay_steps": 10, **given})


def test_negative_steps_are_refused():
    with pytest.raises(ValueError, match="at least 0 agent steps. Received: steps=-1"):
        LinearSchedule(1.0, 0.1, decay_steps=10)(-1)
