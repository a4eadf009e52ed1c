"""Arguments: what passes comes back as a plain value, and what does not is named in one line."""

import fractions

import numpy as np
import pytest

from dqn_lab.arguments import require_choice, require_flag, require_fraction, require_integer


def refusal(kind, check, *arguments, **named):
    with pytest.raises(kind) as error:
        check(*arguments, **named)
    return str(error.value)


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_integers_come_back_as_int(value):
    assert require_integer("count", value, least=3) == 3
    assert type(require_integer("count", value, least=3)) is int


@pytest.mark.parametrize("value", [3.0, np.float64(3), True, np.True_, "3", None, [3], np.array(3)])
def test_what_is_no_integer_is_refused(value):
    text = refusal(TypeError, require_integer, "count", value, least=1)
    assert text == f"`count` must be an integer. Received: count={value!r}"


@pytest.mark.parametrize(("value", "least"), [(0, 1), (-1, 0), (np.int64(4), 5)])
def test_an_integer_below_the_least_is_refused(value, least):
    text = refusal(ValueError, require_integer, "count", value, least=least)
    assert text == f"`count` must be at least {least}. Received: count={value}"


@pytest.mark.parametrize("value", [True, False])
def test_flags_come_back(value):
    assert require_flag("double", value) is value


@pytest.mark.parametrize("value", [1, 0, None, "True", np.True_, []])
def test_what_is_no_flag_is_refused(value):
    text = refusal(TypeError, require_flag, "double", value)
    assert text == f"`double` must be True or False. Received: double={value!r}"


@pytest.mark.parametrize("value", [0, 1, 0.5, np.float32(0.5), fractions.Fraction(1, 2), np.int64(1)])
def test_fractions_come_back_as_float(value):
    assert require_fraction("gamma", value) == float(value)
    assert type(require_fraction("gamma", value)) is float


@pytest.mark.parametrize("value", [-0.01, 1.01, 2, float("nan"), float("inf"), -float("inf"), np.float32(-1)])
def test_a_number_outside_0_and_1_is_refused(value):
    text = refusal(ValueError, require_fraction, "gamma", value)
    assert text == f"`gamma` must lie within 0 and 1. Received: gamma={value}"


@pytest.mark.parametrize("value", ["0.5", None, True, np.False_, 0.5j, [0.5], np.array([0.5])])
def test_what_is_no_number_is_refused(value):
    text = refusal(TypeError, require_fraction, "gamma", value)
    assert text == f"`gamma` must be a number. Received: gamma={value!r}"


@pytest.mark.parametrize("choices", [("huber", "mse"), {"huber": 1, "mse": 2}, ["huber", "mse"]])
def test_a_choice_comes_back(choices):
    assert require_choice("loss", "mse", choices) == "mse"


@pytest.mark.parametrize("choices", [("huber", "mse"), {"huber": 1, "mse": 2}])
@pytest.mark.parametrize("value", ["hubert", "", "MSE", None, 1, ["mse"], np.array(["huber", "mse"]), {}])
def test_what_is_none_of_the_choices_is_refused(value, choices):
    text = refusal(ValueError, require_choice, "loss", value, choices)
    assert text == f"`loss` must be one of huber, mse. Received: loss={value!r}"
