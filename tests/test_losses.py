"""Losses: values and slopes worked by hand."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from dqn_lab.losses import LOSSES, huber, squared
from dqn_lab.targets import td_error


def _loss_and_slope(loss, value, target):
    value = tf.constant(value)
    with tf.GradientTape() as tape:
        tape.watch(value)
        result = loss(td_error(target, value))
    return result.numpy(), tape.gradient(result, value).numpy()


@pytest.mark.case("B018")
def test_huber_clips_the_gradient_and_not_the_error():
    loss, slope = _loss_and_slope(huber, [0.0, 0.0], [5.0, 0.5])
    assert loss.tolist() == [4.5, 0.125]
    assert slope.tolist() == [-1.0, -0.5]
    assert loss.mean() == 2.3125


errors = st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=8)


@given(errors, st.sampled_from([0.5, 1.0, 3.0]))
def test_the_slope_of_huber_is_the_clipped_error(errors, delta):
    errors = np.float32(errors)
    _, slope = _loss_and_slope(lambda e: huber(e, delta), errors, np.zeros_like(errors))
    expected = np.clip(errors, -delta, delta)
    np.testing.assert_allclose(slope, expected, rtol=0, atol=1e-37)  # below it TensorFlow has only 0


@given(errors, st.sampled_from([0.5, 1.0, 3.0]))
def test_huber_is_a_parabola_inside_and_a_line_outside(errors, delta):
    size = np.abs(np.float32(errors))
    expected = np.where(size <= delta, size**2 / 2, delta * (size - delta / 2))
    np.testing.assert_allclose(huber(np.float32(errors), delta), expected, rtol=1e-5)


def test_squared_has_no_factor_of_a_half():
    loss, slope = _loss_and_slope(squared, [0.0, 0.0], [5.0, -0.5])
    assert loss.tolist() == [25.0, 0.25]
    assert slope.tolist() == [-10.0, 1.0]


@pytest.mark.parametrize("loss", LOSSES.values())
def test_losses_are_not_reduced(loss):
    assert loss([1.0, 2.0, 3.0]).shape == (3,)


@pytest.mark.parametrize("loss", LOSSES.values())
@pytest.mark.parametrize("shape", [(), (3, 1), (3, 3)])
def test_an_error_of_another_shape_is_refused(loss, shape):
    with pytest.raises(ValueError, match=r"`error` must have .*shape \[B\]. Received: error.shape="):
        loss(np.zeros(shape, np.float32))


@pytest.mark.parametrize("delta", [0.0, -1.0, float("nan")])
def test_a_delta_that_is_not_above_0_is_refused(delta):
    with pytest.raises(ValueError, match=f"must be above 0. Received: delta={delta}"):
        huber([1.0], delta)


def test_losses_have_names():
    assert LOSSES == {"huber": huber, "mse": squared}
