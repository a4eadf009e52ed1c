"""Losses: values and slopes worked by hand."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from dqn_lab.losses import LOSSES, entropy, huber, policy_gradient_loss, squared, value_loss
from dqn_lab.models.networks import mlp
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


def test_value_loss_has_the_error_for_its_slope():
    loss, slope = _loss_and_slope(value_loss, [1.0, 3.0], [5.0, 2.5])
    assert loss.tolist() == [8.0, 0.125]
    assert slope.tolist() == [-4.0, 0.5]  # V - R


@pytest.mark.parametrize("loss", [*LOSSES.values(), value_loss])
def test_losses_are_not_reduced(loss):
    assert loss([1.0, 2.0, 3.0]).shape == (3,)


@pytest.mark.parametrize("loss", [*LOSSES.values(), value_loss])
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


HALF_QUARTERS = np.log([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]])  # logits of these policies


def test_policy_gradient_loss_worked_by_hand():
    logits = tf.constant(HALF_QUARTERS)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = policy_gradient_loss(logits, [0, 2], [3.0, -2.0])
    assert loss.numpy() == pytest.approx([3 * np.log(2), -2 * np.log(4)])
    # (pi - chosen) * advantage: a step against it makes a good action likelier, a bad one less so
    expected = [[3 * (0.5 - 1), 3 * 0.25, 3 * 0.25], [-2 * 0.25, -2 * 0.5, -2 * (0.25 - 1)]]
    np.testing.assert_allclose(tape.gradient(loss, logits), expected, rtol=1e-12)


def test_no_gradient_goes_through_the_advantage():
    logits, value = tf.constant(HALF_QUARTERS), tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(value)
        loss = policy_gradient_loss(logits, [0, 2], td_error([4.0, 0.0], value))
    assert tape.gradient(loss, value) is None
    assert loss.numpy() == pytest.approx([3 * np.log(2), -2 * np.log(4)])


def test_entropy_worked_by_hand():
    assert entropy(HALF_QUARTERS).numpy() == pytest.approx([1.5 * np.log(2)] * 2)
    assert entropy([[7.0, 7.0, 7.0, 7.0]]).numpy() == pytest.approx([np.log(4)])
    assert entropy([[5.0]]).numpy().tolist() == [0.0]  # one action


@given(st.integers(0, 2**31 - 1))
def test_both_terms_have_the_slope_of_finite_differences(seed):
    generator = np.random.default_rng(seed)
    logits, action = generator.normal(0, 2, (3, 4)), generator.integers(0, 4, 3)
    advantage = generator.normal(0, 2, 3)
    for term in (lambda z: policy_gradient_loss(z, action, advantage), entropy):
        at = tf.constant(logits)
        with tf.GradientTape() as tape:
            tape.watch(at)
            total = tf.reduce_sum(term(at))
        slope = np.zeros_like(logits)
        for place in np.ndindex(*logits.shape):
            step = np.zeros_like(logits)
            step[place] = 1e-5
            slope[place] = np.sum(term(logits + step) - term(logits - step)) / 2e-5
        np.testing.assert_allclose(tape.gradient(total, at), slope, rtol=1e-5, atol=1e-8)


def test_a_step_at_advantage_0_raises_the_entropy():
    network = mlp((4,), 3, hidden=(8,), actor_critic=True)
    network.get_layer("logits").bias.assign([1.0, 0.0, -1.0])
    states = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
    action, optimizer = np.arange(16) % 3, tf.keras.optimizers.SGD(0.1)

    def step(beta):
        with tf.GradientTape() as tape:
            logits, _ = network(states)
            losses = policy_gradient_loss(logits, action, np.zeros(16)) - beta * entropy(logits)  # [B]
            loss = tf.reduce_mean(losses)
        weights = [weight for weight in network.trainable_weights if "state_value" not in weight.path]
        optimizer.apply(tape.gradient(loss, weights), weights)
        return entropy(network(states)[0]).numpy().mean()

    entropies = [step(beta) for beta in (0.0, 0.0, 1.0, 1.0)]
    assert entropies[0] == entropies[1]  # without the bonus nothing moves
    assert entropies[1] + 1e-3 < entropies[2] < entropies[3] - 1e-3


@pytest.mark.parametrize("size", [1e2, 1e4, 1e30])
def test_extreme_logits_stay_finite(size):
    logits = tf.constant([[size, -size, 0.0], [-size, -size, size]], tf.float32)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(logits)
        loss, bonus = policy_gradient_loss(logits, [1, 2], [3.0, -3.0]), entropy(logits)
    assert bonus.numpy().tolist() == [0.0, 0.0]
    assert loss.numpy() == pytest.approx([6 * size, 0.0])
    assert np.isfinite(tape.gradient(loss, logits)).all()
    assert tape.gradient(bonus, logits).numpy().tolist() == [[0.0] * 3] * 2


@pytest.mark.case("B121")
def test_an_advantage_in_a_column_is_a_row():
    loss = policy_gradient_loss(np.zeros((3, 2), np.float32), [[0], [1], [0]], [[1.0], [2.0], [3.0]])
    assert loss.numpy() == pytest.approx(np.log(2) * np.float32([1, 2, 3]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: policy_gradient_loss([[0.0, 0.0]] * 3, [0, 1, 0], [1.0]), r"shape\[0\]=3, advantage.shape\[0\]=1"),
        (lambda: policy_gradient_loss([[0.0, 0.0]] * 3, [0], np.ones(3)), r"action.shape\[0\]=1"),
        (lambda: policy_gradient_loss([0.0, 0.0], [0, 1], [1.0, 1.0]), r"`logits` must .*logits.shape=\(2,\)"),
        (lambda: entropy([0.0, 0.0]), r"`logits` must .*\[B, A\]. Received: logits.shape=\(2,\)"),
    ],
)
def test_policies_of_another_shape_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_taken_actions_that_are_no_integers_are_refused():
    with pytest.raises(TypeError, match="`action` must hold integers"):
        policy_gradient_loss([[0.0, 0.0]], [1.0], [1.0])
