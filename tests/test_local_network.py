"""A worker's own network: parameters in, values and gradients out."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from walking_workers import make_network

from dqn_lab.asynchronous.local_network import LocalNetwork
from dqn_lab.asynchronous.methods import AdvantageActorCritic, NStepQ, OneStepQ, OneStepSarsa
from dqn_lab.models.networks import catch

GENERATOR = np.random.default_rng(0)


def parameters_of(local):
    return np.concatenate([each.numpy().ravel() for each in local._network.trainable_variables])


def numbers(*shape):
    return GENERATOR.normal(size=shape).astype(np.float32)


def segment(length, *, state_shape=(2,), num_actions=3, terminal=False, **more):
    """Random numbers."""
    discount = np.full(length, 0.9, np.float32)
    discount[-1] *= not terminal
    return {
        "state": numbers(length + 1, *state_shape),
        "action": GENERATOR.integers(num_actions, size=length).astype(np.int32),
        "reward": numbers(length),
        "discount": discount,
        **more,
    }


@pytest.fixture(scope="module")
def linear():
    """Q(s) = s W + b."""
    method = NStepQ(loss="mse")
    return LocalNetwork(make_network(method, hidden=()), method)


@pytest.fixture(scope="module")
def recurrent():
    method = AdvantageActorCritic(entropy_beta=0.1)
    network = make_network(method, lstm_units=3)
    return network, LocalNetwork(network, method)


def parts(parameters):
    return parameters[:6].reshape(2, 3), parameters[6:]


def test_it_takes_over_these_very_parameters(linear):
    parameters = numbers(linear.size)
    linear.load(parameters)
    np.testing.assert_array_equal(parameters_of(linear), parameters)
    weights, bias = parts(parameters)
    state = numbers(1, 2)
    np.testing.assert_allclose(linear.values(state), state @ weights + bias, rtol=1e-5, atol=1e-6)
    given = parameters.copy()
    linear.load(given)
    given[:] = np.nan  # another worker writes where they were
    np.testing.assert_array_equal(parameters_of(linear), parameters)


@pytest.mark.parametrize("terminal", [False, True])
def test_a_gradient_is_that_of_numpy(linear, terminal):
    own, target = numbers(2, linear.size)
    linear.load(own)
    linear.load_target(target)
    given = segment(4, terminal=terminal)
    gradient, loss, values = linear.gradient(given)
    weights, bias = parts(own)
    states = given["state"].astype(float)
    taken = (states[:-1] @ weights + bias)[range(4), given["action"]]
    back = (states[-1] @ parts(target)[0] + parts(target)[1]).max()
    error = np.zeros(4)
    for step in (3, 2, 1, 0):
        back = given["reward"][step] + float(given["discount"][step]) * back
        error[step] = back - taken[step]
    slopes = np.zeros((4, 3))
    slopes[range(4), given["action"]] = -2 * error
    expected = np.concatenate([(states[:-1].T @ slopes).ravel(), slopes.sum(axis=0)])
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)
    assert loss == pytest.approx((error**2).sum(), rel=1e-5)
    assert values == pytest.approx(taken.sum(), rel=1e-5)
    np.testing.assert_array_equal(parameters_of(linear), own)  # it learns nothing by itself


def test_double_learning_asks_both_networks():
    method = OneStepQ(double=True, loss="mse")
    network = LocalNetwork(make_network(method, hidden=()), method)
    own, target = numbers(2, network.size)
    network.load(own)
    network.load_target(target)
    given = segment(1)
    (weights, bias), (target_weights, target_bias) = parts(own), parts(target)
    state, after = given["state"]
    chosen = np.argmax(after @ weights + bias)
    value = (after @ target_weights + target_bias)[chosen]
    error = given["reward"][0] + 0.9 * value - (state @ weights + bias)[given["action"][0]]
    assert network.gradient(given)[1] == pytest.approx(error**2, rel=1e-4)


def test_parameters_stand_in_the_order_of_the_networks_variables():
    method = AdvantageActorCritic(entropy_beta=0.1)
    network = catch((10, 5, 1), 3, actor_critic=True)
    local, given = LocalNetwork(network, method), segment(3, state_shape=(10, 5, 1))
    assert local.lstm_units == 0
    variables = [variable.value for variable in network.trainable_variables]
    with tf.GradientTape() as tape:
        loss, values = method.loss(network, None, {name: tf.constant(array) for name, array in given.items()})
    expected = [gradient.numpy().ravel() for gradient in tape.gradient(loss, variables)]
    gradient, own_loss, own_values = local.gradient(given)
    np.testing.assert_allclose(gradient, np.concatenate(expected), rtol=1e-4, atol=1e-6)
    assert own_loss == pytest.approx(float(loss), rel=1e-5)
    assert own_values == pytest.approx(float(tf.reduce_sum(values)), rel=1e-5)
    assert local.size == network.count_params()


def test_a_variable_that_the_loss_does_not_reach_has_a_gradient_of_0():
    state = keras.Input((2,))
    values = keras.layers.Dense(3, name="used")(state)
    unused = keras.layers.Dense(3, name="unused")(state)
    network = keras.Model(state, values + 0 * keras.ops.stop_gradient(unused))
    gradient, _, _ = LocalNetwork(network, NStepQ()).gradient(segment(2))
    sizes = [int(np.prod(variable.shape)) for variable in network.trainable_variables]
    parts = np.split(gradient, np.cumsum(sizes)[:-1])
    reached = {each.path: part.any() for each, part in zip(network.trainable_variables, parts, strict=True)}
    assert reached == {"used/kernel": True, "used/bias": True, "unused/kernel": False, "unused/bias": False}


def test_a_segment_through_an_lstm_is_its_steps(recurrent):
    network, local = recurrent
    assert local.lstm_units == 3
    memory = numbers(2, 1, 3)
    given = segment(4, memory=memory)
    variables = [variable.value for variable in network.trainable_variables]

    def step_by_step(states):
        carried, logits, values = tf.unstack(tf.constant(memory)), [], []
        for step in range(5):
            one, value, *carried = network([states[step : step + 1], *carried])
            logits.append(one[0])
            values.append(value[0])
        return tf.stack(logits), tf.stack(values)

    tensors = {name: tf.constant(array) for name, array in given.items() if name != "memory"}
    with tf.GradientTape() as tape:
        loss, values = AdvantageActorCritic(entropy_beta=0.1).loss(step_by_step, None, tensors)
    expected = [gradient.numpy().ravel() for gradient in tape.gradient(loss, variables)]
    gradient, own_loss, own_values = local.gradient(given)
    np.testing.assert_allclose(gradient, np.concatenate(expected), rtol=1e-3, atol=1e-5)
    assert own_loss == pytest.approx(float(loss), rel=1e-4)
    assert own_values == pytest.approx(float(tf.reduce_sum(values)), rel=1e-4)


def test_a_memory_comes_out_and_is_kept_nowhere(recurrent):
    network, local = recurrent
    state, memory = numbers(1, 2), numbers(2, 1, 3)
    before = memory.copy()
    logits, after = local.recall(state, memory)
    expected, _, *both = network([tf.constant(state), *tf.unstack(tf.constant(memory))])
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(after, np.stack(both), rtol=1e-5, atol=1e-6)
    local.gradient(segment(2, memory=after))
    local.recall(numbers(1, 2), after)
    np.testing.assert_array_equal(local.recall(state, before)[0], logits)
    np.testing.assert_array_equal(memory, before)


def test_there_is_one_graph_per_function_whatever_the_segments_lengths(linear, recurrent):
    counts = linear.trace_count, recurrent[1].trace_count
    assert counts == (4, 3)  # two to load, gradient, values; one to load, gradient, memory
    calls = {"function": 0}
    method = OneStepSarsa()
    loss = method.loss

    def counted(*given):
        calls["function"] += 1
        return loss(*given)

    method.loss = counted
    sarsa = LocalNetwork(make_network(method), method)
    for length in (1, 5, 2, 5):
        linear.gradient(segment(length))
        recurrent[1].gradient(segment(length, memory=numbers(2, 1, 3)))
        sarsa.gradient(segment(length, next_action=np.zeros(length, np.int32)))
        linear.values(numbers(1, 2))
    assert (linear.trace_count, recurrent[1].trace_count) == counts
    assert calls["function"] == 1


@pytest.mark.parametrize("dtype", [np.float64, np.uint8])
def test_states_may_have_another_type_than_the_network_takes(linear, recurrent, dtype):
    state = np.array([[1, 2]], dtype)
    np.testing.assert_array_equal(linear.values(state), linear.values(state.astype(np.float32)))
    memory = numbers(2, 1, 3)
    given, other = recurrent[1].recall(state, memory), recurrent[1].recall(state.astype(np.float32), memory)
    np.testing.assert_array_equal(given[0], other[0])
    whole = segment(1)
    whole["state"] = np.array([[1, 2], [3, 4]], dtype)
    other = whole | {"state": whole["state"].astype(np.float32)}
    np.testing.assert_array_equal(linear.gradient(whole)[0], linear.gradient(other)[0])
