"""Signals at the pixels: worked by hand on three hidden units, and against differences of the values themselves."""

import keras
import numpy as np
import pytest

from dqn_lab.commands import record
from dqn_lab.models.networks import catch, mlp
from dqn_lab.saliency import METHODS, Saliency

HIDDEN = [[1, -2, 1], [2, 1, -1]]  # of pixels (3, 1) units 5, -5, 2 before the ReLU
VALUES = [[1, -1], [3, 2], [-4, 1]]
STATE = np.array([3, 1], np.float32).reshape(1, 1, 2, 1)
# By hand, of actions 0 and 1: which units' weights count, times VALUES.
SIGNALS = {
    "gradient": [(1 - 4, 2 + 4), (-1 + 1, -2 - 1)],  # units 0 and 2 are on
    "guided": [(1, 2), (1, -1)],  # those of them whose value's weight is above 0: unit 0; unit 2
    "deconvnet": [(1 - 6, 2 + 3), (-4 + 1, 2 - 1)],  # on or off: units 0 and 1; units 1 and 2
}
RELUS = {
    "activation": lambda x, dense: dense(x, activation="relu"),
    "layer": lambda x, dense: keras.layers.ReLU()(dense(x)),
    "activation layer": lambda x, dense: keras.layers.Activation("relu")(dense(x)),
    "operation": lambda x, dense: keras.ops.relu(dense(x)),
}


def by_hand(relu="activation"):
    def dense(x, **settings):
        return keras.layers.Dense(3, use_bias=False, **settings)(x)

    state = keras.Input((1, 2, 1))
    hidden = RELUS[relu](keras.layers.Flatten()(state), dense)
    network = keras.Model(state, keras.layers.Dense(2, use_bias=False)(hidden))
    network.set_weights([np.array(HIDDEN), np.array(VALUES)])
    return network


def nested():
    inner = by_hand()
    state = keras.Input((1, 2, 1))
    return keras.Model(state, inner(state))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("make", [nested, *(lambda relu=relu: by_hand(relu) for relu in RELUS)])
def test_three_units_worked_by_hand(make, method):
    signals = Saliency(make(), method)(STATE.repeat(2, axis=0), np.array([0, 1]))
    assert signals.shape == (2, 1, 2, 1)
    assert signals.dtype == np.float32
    assert signals.reshape(2, 2).tolist() == [list(pair) for pair in SIGNALS[method]]


@pytest.mark.parametrize("method", METHODS)
def test_a_recurrent_layer_with_relus_goes_back_by_its_derivative(method):
    state = keras.Input((1, 2, 1))
    rows = keras.layers.Reshape((1, 2))(state)
    network = keras.Model(state, keras.layers.SimpleRNN(2, activation="relu", use_bias=False)(rows))
    network.set_weights([np.array([[1, -2], [2, 1]]), np.zeros((2, 2))])  # of (3, 1): 5, -5
    if method == "gradient":
        signals = Saliency(network, method)(STATE.repeat(2, axis=0), np.array([0, 1]))
        assert signals.reshape(2, 2).tolist() == [[1, 2], [0, 0]]
    else:
        with pytest.raises(ValueError, match="The network has no ReLU"):
            Saliency(network, method)


@pytest.mark.parametrize("settings", [{"negative_slope": 0.5}, {"max_value": 6.0}, {"threshold": 1.0}])
def test_what_is_only_like_a_relu_goes_back_by_its_derivative(settings):
    state = keras.Input((1, 2, 1))
    hidden = keras.layers.ReLU(**settings)(keras.layers.Dense(3, use_bias=False)(keras.layers.Flatten()(state)))
    network = keras.Model(state, keras.layers.Dense(2, use_bias=False)(hidden))
    network.set_weights([np.array(HIDDEN), np.array(VALUES)])
    with pytest.raises(ValueError, match="The network has no ReLU"):
        Saliency(network, "guided")
    unit = settings.get("negative_slope", 0) * 3  # unit 1 is off: its value's weight, 3, times the slope
    signals = Saliency(network, "gradient")(STATE, np.array([0]))
    assert signals.ravel().tolist() == [1 - 4 - 2 * unit, 2 + 4 + unit]


def score(network, states, actions, memory):
    """What the signal goes out from."""
    outputs = network([states, *memory] if len(memory) else states)
    if not isinstance(outputs, list | tuple):
        return np.array(outputs)[np.arange(len(states)), actions]
    odds = np.exp(np.array(outputs[0], np.float64))
    taken = odds[np.arange(len(states)), actions]
    return np.log(taken / (odds.sum(axis=1) - taken))


@pytest.mark.parametrize(
    "settings", [{}, {"dueling": True}, {"actor_critic": True}, {"actor_critic": True, "lstm_units": 5}]
)
def test_the_gradient_is_that_of_the_score(settings):
    network = catch((4, 3, 2), 3, initializer="he", seed=1, **settings)
    generator, small = np.random.default_rng(0), 1e-3
    states, actions = generator.normal(size=(2, 4, 3, 2)).astype(np.float32), np.array([2, 0])
    memory = generator.normal(size=(2, 2, settings.get("lstm_units", 0))).astype(np.float32)
    memory = memory if "lstm_units" in settings else None
    found = Saliency(network, "gradient", actor_critic=len(network.outputs) > 1)(states, actions, memory)
    for row in (0, 1):
        shifts = small * np.eye(24, dtype=np.float32).reshape(24, 4, 3, 2)
        one = () if memory is None else memory[:, row : row + 1].repeat(24, axis=1)
        above, below = (
            score(network, states[row] + sign * shifts, np.full(24, actions[row]), one) for sign in (1.0, -1.0)
        )
        slopes = ((above - below) / (2 * small)).reshape(4, 3, 2)
        assert np.abs(slopes).max() > 0.02
        assert found[row] == pytest.approx(slopes, abs=1e-3)


def test_states_of_bytes_are_taken_on_their_own_scale():
    settings = {"initializer": "he", "seed": 2}
    states = np.random.default_rng(0).integers(256, size=(1, 10, 5, 1), dtype=np.uint8)
    of_bytes = Saliency(catch((10, 5, 1), 3, state_dtype="uint8", **settings), "guided")(states, np.array([1]))
    of_numbers = Saliency(catch((10, 5, 1), 3, **settings), "guided")(states / np.float32(255), np.array([1]))
    assert np.abs(of_numbers).max() > 0
    assert of_bytes == pytest.approx(of_numbers / 255, rel=1e-4)


def test_a_sure_policy_has_a_map_too():
    network = catch((10, 5, 1), 3, actor_critic=True, initializer="he", seed=1)
    states, actions = np.ones((1, 10, 5, 1), np.float32), np.array([1])
    unsure = Saliency(network, "gradient", actor_critic=True)(states, actions)
    logits = network.get_layer("logits")
    logits.bias.assign([0.0, 60.0, 0.0])  # p = 1 in float32, and log p has no derivative left
    sure = Saliency(network, "gradient", actor_critic=True)(states, actions)
    assert np.abs(unsure).max() > 0.01
    assert np.abs(sure).max() > 0.01


def test_the_network_stays_as_it_is_and_is_compiled_once():
    network = by_hand()
    saliency = Saliency(network, "deconvnet")
    for action in (0, 1, 0):
        saliency(STATE, np.array([action]))
    assert saliency._compiled.experimental_get_tracing_count() == 1
    assert [layer.activation for layer in network.layers[2:]] == [keras.activations.relu, keras.activations.linear]
    assert [weights.tolist() for weights in network.get_weights()] == [HIDDEN, VALUES]


def test_what_has_no_map_is_refused():
    with pytest.raises(ValueError, match=r"states that are pictures, \[H, W, C\]. Received: state_shape=\(4,\)"):
        Saliency(mlp((4,), 2), "gradient")
    with pytest.raises(ValueError, match="method='grad'"):
        Saliency(by_hand(), "grad")
    linear = mlp((2, 2, 1), 2, hidden=())
    with pytest.raises(ValueError, match="has no ReLU: of it there is the gradient only. Received: method='guided'"):
        Saliency(linear, "guided")
    assert Saliency(linear, "gradient")(np.zeros((1, 2, 2, 1), np.float32), np.array([0])).std() > 0


def test_the_command_offers_each_method():
    assert record._SALIENCY == METHODS
