"""Optimizers: the Nature paper's RMSProp against its formula in numpy."""

import keras
import numpy as np
import pytest

from dqn_lab.optimizers import make_optimizer

LEARNING_RATE = 2.5e-4
STEPS = 300


def _gradients(shape=(7,)):
    """Gradients of many sizes, some far below and some above the paper's 0.01."""
    generator = np.random.default_rng(5)
    size = np.float32([1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0])
    return (generator.normal(size=(STEPS, *shape)) * size + size / 2).astype(np.float32)


def _run(optimizer, gradients, start):
    variable = keras.Variable(start)
    path = []
    for gradient in gradients:
        optimizer.apply([gradient], [variable])
        path.append(variable.numpy())
    return np.stack(path)


def _paper(gradients, start, epsilon=0.01, rho=0.95, centered=True):
    """DeepMind's update of the summed loss, in float64."""
    weight = np.float64(start)
    mean, square = np.zeros_like(weight), np.zeros_like(weight)
    path = []
    for gradient in np.float64(gradients):
        mean = rho * mean + (1 - rho) * gradient
        square = rho * square + (1 - rho) * gradient**2
        variance = square - mean**2 if centered else square
        weight = weight - LEARNING_RATE * gradient / np.sqrt(variance + epsilon)
        path.append(weight)
    return np.stack(path)


START = np.linspace(-1, 1, 7, dtype=np.float32)


@pytest.mark.parametrize("batch_size", [1, 32, 50])
def test_a_mean_over_the_batch_steps_as_the_paper_does_with_a_sum(batch_size):
    summed = _gradients()
    optimizer = make_optimizer("rmsprop_centered", LEARNING_RATE, batch_size=batch_size)
    path = _run(optimizer, summed / np.float32(batch_size), START)
    np.testing.assert_allclose(path, _paper(summed, START), rtol=0, atol=2e-6)


def test_an_epsilon_outside_the_root_or_of_the_sum_would_be_seen():
    summed = _gradients()
    paper = _paper(summed, START)
    of_the_sum = _paper(summed / 32, START)  # 0.01 kept under a mean over 32 rows
    uncentered = _paper(summed, START, centered=False)
    for other in (of_the_sum, uncentered):
        assert np.abs(other[-1] - paper[-1]).max() > 1e-3


def test_a_mean_over_32_rows_steps_bit_for_bit_as_the_sum():
    summed = _gradients()
    by_sum = _run(make_optimizer("rmsprop_centered", LEARNING_RATE, batch_size=1), summed, START)
    optimizer = make_optimizer("rmsprop_centered", LEARNING_RATE, batch_size=32)
    np.testing.assert_array_equal(_run(optimizer, summed / 32, START), by_sum)


def test_plain_rmsprop_is_uncentered_with_epsilon_inside_the_root():
    gradients = _gradients()
    path = _run(make_optimizer("rmsprop", LEARNING_RATE), gradients, START)
    expected = _paper(gradients, START, epsilon=1e-7, rho=0.9, centered=False)
    np.testing.assert_allclose(path, expected, rtol=0, atol=2e-5)


def test_sgd_steps_along_the_gradient():
    path = _run(make_optimizer("sgd", 0.5), [np.float32([1, -2])], np.float32([0, 0]))
    assert path[-1].tolist() == [-0.5, 1.0]


def test_adam_first_steps_by_the_learning_rate():
    path = _run(make_optimizer("adam", 0.25), [np.float32([3, -2])], np.float32([0, 0]))
    assert path[-1] == pytest.approx([-0.25, 0.25], abs=1e-5)


def test_the_preset_is_kerass_own_and_its_configuration_makes_it_again():
    optimizer = make_optimizer("rmsprop_centered", LEARNING_RATE, batch_size=32)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again) is keras.optimizers.RMSprop
    assert again.get_config() == optimizer.get_config()
    assert (again.rho, again.centered, again.momentum) == (0.95, True, 0.0)
    assert again.epsilon == pytest.approx(0.01 / 1024)


def test_each_call_gives_a_new_optimizer():
    assert make_optimizer("adam", 1e-3) is not make_optimizer("adam", 1e-3)


def test_an_unknown_name_is_refused_with_the_closest():
    with pytest.raises(ValueError, match="closest is 'rmsprop'. Received: optimizer='rmspropp'"):
        make_optimizer("rmspropp", 1e-3)


@pytest.mark.parametrize("learning_rate", [0.0, -1e-3, float("nan"), float("inf")])
def test_a_learning_rate_that_is_not_above_0_is_refused(learning_rate):
    with pytest.raises(ValueError, match=f"above 0. Received: learning_rate={learning_rate}"):
        make_optimizer("adam", learning_rate)


@pytest.mark.parametrize("batch_size", [None, 0])
def test_the_preset_must_know_the_batch_size(batch_size):
    with pytest.raises(ValueError, match=f"depends on it. Received: batch_size={batch_size}"):
        make_optimizer("rmsprop_centered", LEARNING_RATE, batch_size=batch_size)


def test_adam_and_rmsprop_divide_by_what_epsilon_says():
    adam = make_optimizer("adam", 0.25, epsilon=1.0)
    # The first step is lr * g / (|g| + epsilon / sqrt(1 - 0.999)): 0.25 * 3 / (3 + 31.6228).
    np.testing.assert_allclose(_run(adam, [np.float32([3])], np.float32([0]))[0], [-0.02166190], rtol=1e-5)
    rmsprop = make_optimizer("rmsprop", 0.5, epsilon=0.6)
    # v = 0.1 g^2 = 0.4, and epsilon stands under the root.
    np.testing.assert_allclose(_run(rmsprop, [np.float32([2])], np.float32([0]))[0], [-1.0], rtol=1e-5)


@pytest.mark.parametrize("name", ["rmsprop_centered", "sgd"])
def test_others_take_no_epsilon(name):
    with pytest.raises(ValueError, match=f"is for adam and rmsprop only. Received: optimizer='{name}', epsilon=0.1"):
        make_optimizer(name, 1e-3, batch_size=32, epsilon=0.1)


@pytest.mark.parametrize("epsilon", [0.0, -1e-3, float("nan"), float("inf")])
def test_an_epsilon_that_is_not_above_0_is_refused(epsilon):
    with pytest.raises(ValueError, match=f"above 0. Received: optimizer_epsilon={epsilon}"):
        make_optimizer("adam", 1e-3, epsilon=epsilon)
