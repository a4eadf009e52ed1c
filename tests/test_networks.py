"""Networks: sizes, one scaling, dueling rows, initial weights, precision, and files without dqn_lab."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from dqn_lab.models.layers import SeededLayers, dueling_values
from dqn_lab.models.networks import catch, mlp, nature, network_precision, nips, over_time, small

# Keras hands its own variables to numpy in a way that numpy 2 calls outdated.
old_array_protocol = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

PRECISIONS = ["float32", "mixed_bfloat16", "mixed_float16"]
ATARI = (84, 84, 4)


def _frames(rows=2, shape=ATARI):
    return np.random.default_rng(0).integers(0, 256, (rows, *shape), dtype=np.uint8)


def _shapes(network):
    return [tuple(weight.shape) for weight in network.trainable_weights]


def test_nature_is_the_network_of_the_paper():
    network = nature(ATARI, 4)
    assert network.count_params() == 1_686_180
    assert _shapes(network)[::2] == [
        (8, 8, 4, 32),
        (4, 4, 32, 64),
        (3, 3, 64, 64),
        (7 * 7 * 64, 512),
        (512, 4),
    ]
    strides = [layer.strides for layer in network.layers if isinstance(layer, keras.layers.Conv2D)]
    assert strides == [(4, 4), (2, 2), (1, 1)]
    assert network.input_shape == (None, *ATARI)


def test_nips_is_the_network_of_the_earlier_paper():
    network = nips(ATARI, 4)
    assert _shapes(network)[::2] == [(8, 8, 4, 16), (4, 4, 16, 32), (9 * 9 * 32, 256), (256, 4)]
    strides = [layer.strides for layer in network.layers if isinstance(layer, keras.layers.Conv2D)]
    assert strides == [(4, 4), (2, 2)]


def test_small_is_the_network_of_the_asynchronous_paper():
    network = small(ATARI, 6, actor_critic=True)
    assert _shapes(network)[:6:2] == [(8, 8, 4, 16), (4, 4, 16, 32), (9 * 9 * 32, 256)]
    convolutions, hidden = 8 * 8 * 4 * 16 + 16 + 4 * 4 * 16 * 32 + 32, 9 * 9 * 32 * 256 + 256
    assert network.count_params() == convolutions + hidden + 257 * 6 + 257 == 677_943
    recurrent = small(ATARI, 6, actor_critic=True, lstm_units=256)
    assert recurrent.count_params() == 677_943 + 4 * 256 * (256 + 256 + 1)
    assert network.inputs[0].dtype == recurrent.inputs[0].dtype == "uint8"
    assert small(ATARI, 6).count_params() == convolutions + hidden + 257 * 6
    assert small(ATARI, 6, dueling=True).count_params() == convolutions + 2 * hidden + 257 * 6 + 257


ACTOR_CRITICS = {
    "small": lambda **options: small(ATARI, 3, actor_critic=True, **options),
    "catch": lambda **options: catch((10, 5), 3, actor_critic=True, **options),
    "mlp": lambda **options: mlp((4,), 3, hidden=(8, 7), actor_critic=True, **options),
    "linear": lambda **options: mlp((4,), 3, hidden=(), actor_critic=True, **options),
}


def _states(network, rows):
    state = network.inputs[0]
    return tf.constant(_frames(rows, state.shape[1:]).astype(state.dtype))


def _memory(rows, units=5, seed=7):
    generator = np.random.default_rng(seed)
    return [tf.constant(generator.normal(size=(rows, units)), tf.float32) for _ in range(2)]


@pytest.mark.parametrize("build", ACTOR_CRITICS.values(), ids=ACTOR_CRITICS)
def test_an_actor_critic_gives_logits_and_a_value_per_row(build):
    network = build()
    logits, value = network(_states(network, 2))
    assert (logits.shape, value.shape) == ((2, 3), (2,))
    features = keras.Model(network.input, network.get_layer("logits").input)
    assert network.get_layer("state_value").input is network.get_layer("logits").input  # one trunk for both
    kernel, bias = (weight.numpy() for weight in network.get_layer("state_value").weights)
    np.testing.assert_allclose(value, (features(_states(network, 2)) @ kernel + bias)[:, 0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("build", ACTOR_CRITICS.values(), ids=ACTOR_CRITICS)
def test_the_memory_of_an_lstm_goes_in_and_comes_out_row_by_row(build):
    network = build(lstm_units=5)
    states, memory = _states(network, 3), _memory(3)
    together = network([states, *memory])
    assert [output.shape for output in together] == [(3, 3), (3,), (3, 5), (3, 5)]
    alone = network([states[1:2], *(part[1:2] for part in memory)])
    for one, all_rows in zip(alone, together, strict=True):
        np.testing.assert_allclose(one[0], all_rows[1], rtol=1e-4, atol=1e-6)


def test_an_lstm_step_is_the_one_of_the_textbook():
    network = mlp((4,), 3, hidden=(), actor_critic=True, lstm_units=5)
    states, (hidden, cell) = tf.random.stateless_normal((2, 4), (1, 2)), _memory(2)
    kernel, recurrent, bias = (weight.numpy() for weight in network.get_layer("lstm").weights)
    gates = states.numpy() @ kernel + hidden.numpy() @ recurrent + bias
    enter, forget, candidate, leave = np.split(gates, 4, axis=1)
    enter, forget, leave = (1 / (1 + np.exp(-gate)) for gate in (enter, forget, leave))
    next_cell = forget * cell.numpy() + enter * np.tanh(candidate)
    outputs = network([states, hidden, cell])
    np.testing.assert_allclose(outputs[3], next_cell, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(outputs[2], leave * np.tanh(next_cell), rtol=1e-4, atol=1e-6)
    kernel, bias = (weight.numpy() for weight in network.get_layer("logits").weights)
    np.testing.assert_allclose(outputs[0], outputs[2].numpy() @ kernel + bias, rtol=1e-4, atol=1e-6)


def test_all_weights_of_an_lstm_start_within_one_over_root_units():
    for weight in mlp((4,), 3, actor_critic=True, lstm_units=100).get_layer("lstm").weights:
        assert 0.09 < np.abs(weight.numpy()).max() <= 0.1
        assert abs(weight.numpy().mean()) < 0.02  # the forget gate's bias is none of 1


def _walk(network, states, memory, bootstrap_after=()):
    """Logits and values of single steps, the memory carried on; calls in between that only value a state."""
    outputs = []
    for step in range(len(states)):
        *heads, hidden, cell = network([states[step : step + 1], *memory])
        outputs.append(tf.concat([heads[0][0], heads[1]], axis=0))
        memory = [hidden, cell]
        if step in bootstrap_after:
            network([10 * states[step : step + 1], *memory])
    return tf.stack(outputs).numpy(), memory


def test_a_bootstrap_leaves_the_memory_untouched():
    network = mlp((4,), 3, actor_critic=True, lstm_units=5)
    states = tf.random.stateless_normal((6, 4), (1, 2))
    plain, (hidden, cell) = _walk(network, states, _memory(1))
    valued, (hidden_valued, cell_valued) = _walk(network, states, _memory(1), bootstrap_after=(1, 4))
    np.testing.assert_array_equal(plain, valued)
    np.testing.assert_array_equal(hidden, hidden_valued)
    np.testing.assert_array_equal(cell, cell_valued)


def test_the_memory_of_the_past_counts_until_it_is_set_to_0():
    network = mlp((4,), 3, actor_critic=True, lstm_units=5)
    states = tf.random.stateless_normal((6, 4), (1, 2))
    zero = [tf.zeros((1, 5))] * 2
    whole, _ = _walk(network, states, zero)
    _, memory = _walk(network, states[:3], zero)
    np.testing.assert_array_equal(_walk(network, states[3:], memory)[0], whole[3:])
    begun_anew, _ = _walk(network, states[3:], zero)
    assert np.abs(begun_anew - whole[3:]).min() > 0


@pytest.mark.parametrize("length", [1, 5])
@pytest.mark.parametrize("build", ACTOR_CRITICS.values(), ids=ACTOR_CRITICS)
def test_a_segment_in_one_call_equals_its_steps(build, length):
    network = build(lstm_units=5)
    segment = over_time(network)
    states = _states(network, length)
    heads, memory = _walk(network, states, _memory(1))
    logits, value, *after = segment([states, *_memory(1)])
    np.testing.assert_allclose(tf.concat([logits, value[:, None]], axis=1), heads, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(after, memory, rtol=1e-4, atol=1e-6)
    assert all(a is b for a, b in zip(segment.weights, network.weights, strict=True))
    trainable = zip(segment.trainable_variables, network.trainable_variables, strict=True)
    assert all(a is b for a, b in trainable)


def test_a_network_that_another_process_built_has_its_segment_too():
    keras.utils.clear_session()  # operations are numbered from the beginning
    network = mlp((4,), 3, actor_critic=True, lstm_units=5)
    keras.utils.clear_session()  # as in a process that has built none of them
    assert over_time(network)([tf.zeros((2, 4)), *_memory(1)])[0].shape == (2, 3)


def test_a_segment_has_the_gradient_of_its_steps():
    network = mlp((4,), 3, actor_critic=True, lstm_units=5)
    segment, states = over_time(network), tf.random.stateless_normal((4, 4), (1, 2))
    weights = [variable.value for variable in network.trainable_variables]
    with tf.GradientTape(persistent=True) as tape:
        memory, last_value = _memory(1), 0.0
        for step in range(4):
            _, last_value, *memory = network([states[step : step + 1], *memory])
        at_once = segment([states, *_memory(1)])[1][3]
    through = tape.gradient(last_value, weights, unconnected_gradients="zero")
    for a, b in zip(tape.gradient(at_once, weights, unconnected_gradients="zero"), through, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("state_shape", [(10, 5), (10, 5, 1), (24, 24), (24, 24, 1)])
def test_catch_takes_its_grids_with_and_without_a_channel(state_shape):
    network = catch(state_shape, 3)
    assert network(np.zeros((2, *state_shape), np.float32)).shape == (2, 3)
    assert network.count_params() < 100_000


@pytest.mark.parametrize("state_shape", [(), (4,), (2, 3), (2, 3, 5)])
def test_mlp_flattens_any_shape(state_shape):
    network = mlp(state_shape, 2, hidden=(8, 7))
    inputs = int(np.prod(state_shape))
    assert _shapes(network)[::2] == [(inputs, 8), (8, 7), (7, 2)]
    assert network(np.zeros((3, *state_shape), np.float32)).shape == (3, 2)


def test_mlp_without_hidden_layers_is_linear():
    network = mlp((4,), 2, hidden=())
    kernel, bias = network.get_weights()
    state = np.float32([[1, -2, 3, -4]])
    np.testing.assert_allclose(network(state), state @ kernel + bias, rtol=1e-5)


@pytest.mark.case("B028")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_pixels_are_scaled_once_before_the_first_layer(precision):
    network = nature(ATARI, 4, dtype=precision)
    assert network.inputs[0].dtype == "uint8"
    first = network.get_layer("convolution_1")
    to_first = keras.Model(network.input, first.input)
    seen = np.float32(to_first(np.stack([np.full(ATARI, pixel, np.uint8) for pixel in (255, 128, 0)])))
    assert [np.unique(row).size for row in seen] == [1, 1, 1]
    tolerance = 1e-5 if precision == "float32" else 4e-3  # bfloat16 has 8 significant bits
    assert seen[:, 0, 0, 0] == pytest.approx([1.0, 0.50196, 0.0], abs=tolerance)


def test_float_states_are_taken_as_they_are():
    network = nips(ATARI, 4, state_dtype="float32")
    assert network.inputs[0].dtype == "float32"
    assert not any(isinstance(layer, keras.layers.Rescaling) for layer in network.layers)


@pytest.mark.case("B071")
def test_dueling_takes_the_mean_over_the_actions_of_each_row():
    advantage = tf.constant([[1.0, 2.0], [-2.0, 3.0], [3.0, -4.0]])
    value = tf.constant([[10.0], [20.0], [30.0]])
    together = dueling_values(value, advantage).numpy()
    assert together.tolist() == [[9.5, 10.5], [17.5, 22.5], [33.5, 26.5]]
    assert dueling_values(value[:1], advantage[:1]).numpy().tolist() == together[:1].tolist()


@pytest.mark.case("B071")
def test_dueling_outputs_of_a_state_do_not_depend_on_the_batch():
    network = mlp((4,), 3, dueling=True)
    states = np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)
    np.testing.assert_allclose(network(states)[:1], network(states[:1]), rtol=1e-5)


def test_each_dueling_stream_has_a_hidden_layer_of_its_own():
    network = nature(ATARI, 4, dueling=True)
    hidden, head = 7 * 7 * 64 * 512 + 512, 512 * 4 + 4
    assert network.count_params() == 1_686_180 + hidden + 512 + 1
    assert _shapes(network).count((7 * 7 * 64, 512)) == 2
    value = keras.Model(network.input, network.get_layer("state_value").output)
    advantage = keras.Model(network.input, network.get_layer("advantage").output)
    states = _frames()
    np.testing.assert_allclose(network(states), dueling_values(value(states), advantage(states)), rtol=1e-5, atol=1e-6)
    assert network.get_layer("advantage").count_params() == head


def test_initial_weights_are_uniform_within_one_over_root_fan_in():
    network = nature(ATARI, 4, seed=3)
    for layer in network.layers:
        if not layer.weights:
            continue
        kernel, bias = (weight.numpy() for weight in layer.weights)
        limit = 1 / np.sqrt(np.prod(kernel.shape[:-1]))
        assert np.abs(kernel).max() <= limit
        assert np.abs(bias).max() <= limit
        if kernel.size < 8_000:
            continue
        shares = np.histogram(kernel, bins=4, range=(-limit, limit))[0] / kernel.size
        assert shares == pytest.approx([0.25] * 4, abs=0.025)
        assert np.ptp(bias) > limit  # not all zero, nor all alike


@pytest.mark.parametrize("heads", [{}, {"dueling": True}, {"actor_critic": True}])
def test_he_weights_keep_the_variance_through_a_relu_and_biases_start_at_0(heads):
    network = nips(ATARI, 4, seed=3, initializer="he", **heads)
    for layer in (layer for layer in network.layers if layer.weights):
        kernel, bias = (weight.numpy() for weight in layer.weights)
        fan_in = np.prod(kernel.shape[:-1])
        limit = np.sqrt((6 if layer.name.startswith(("convolution", "hidden")) else 1) / fan_in)
        assert 0.95 * limit < np.abs(kernel).max() <= limit * (1 + 1e-6)
        assert not bias.any()


def test_values_tell_states_apart_more_with_he_weights():
    states = _frames(rows=32)
    spread = {name: np.std(nature(ATARI, 4, initializer=name)(states), axis=0) for name in ("torch", "he")}
    assert np.all(spread["he"] > 5 * spread["torch"])


def test_an_unknown_initializer_is_refused():
    with pytest.raises(ValueError, match="`initializer` must be one of .*torch.*he.* Received: initializer='glorot'"):
        mlp((4,), 2, initializer="glorot")


def test_layers_do_not_start_alike():
    layers = SeededLayers(0, "float32")
    state = keras.Input((5,))
    network = keras.Model(state, [layers.hidden(state, 5), layers.hidden(state, 5)])
    weights = [weight.numpy().ravel() for weight in network.weights]
    firsts = {weight[0] for weight in weights}
    assert len(firsts) == 4


@old_array_protocol
def test_a_seed_gives_the_same_bits_again_and_another_seed_others():
    one, same, other = (mlp((4,), 2, seed=seed) for seed in (5, 5, 6))
    for a, b, c in zip(one.get_weights(), same.get_weights(), other.get_weights(), strict=True):
        assert np.array_equal(a, b)
        assert not np.any(a == c)


def test_a_seed_gives_these_very_numbers_on_every_system():
    kernel = mlp((4,), 2, seed=0).get_layer("hidden_1").kernel.numpy()
    first = [0.18324828147888184, -0.17327880859375, 0.34301745891571045]
    assert kernel[0, :3].tolist() == first


@old_array_protocol
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_clone_starts_with_the_same_weights_and_shares_none(precision):
    network = catch((10, 5), 3, seed=2, dueling=True, dtype=precision)
    clone = keras.models.clone_model(network)
    for a, b in zip(network.weights, clone.weights, strict=True):
        assert a is not b
        assert np.array_equal(a.numpy(), b.numpy())
    assert network_precision(clone) == precision


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("dueling", [False, True])
def test_the_model_tells_its_precision_and_ends_in_float32(precision, dueling):
    network = catch((10, 5), 3, dueling=dueling, dtype=precision)
    assert network.dtype_policy.name == precision
    assert network_precision(network) == precision
    half = {"float32": "float32", "mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}
    assert network.get_layer("hidden_1").compute_dtype == half[precision]
    assert network.get_layer("convolution_1").output.dtype == half[precision]
    assert network(np.ones((2, 10, 5), np.float32)).dtype == tf.float32
    assert {weight.dtype for weight in network.weights} == {"float32"}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_an_lstm_carries_float32_whatever_the_precision(precision):
    network = mlp((4,), 2, actor_critic=True, lstm_units=5, dtype=precision)
    assert network_precision(network) == precision
    for model in (network, over_time(network)):
        assert {output.dtype for output in model([np.ones((1, 4), np.float32), *map(np.array, _memory(1))])} == {
            tf.float32
        }


def test_the_head_computes_in_float32_under_mixed_precision():
    network = mlp((4,), 2, hidden=(), dtype="mixed_bfloat16")
    kernel, bias = (weight.numpy() for weight in network.weights)
    state = np.float32([[1.0, 0.5, 0.25, 2.0]])  # exact in bfloat16, the weights are not
    np.testing.assert_allclose(network(state), state @ kernel + bias, rtol=1e-6)


def test_mixed_float16_is_trained_with_loss_scaling():
    network = mlp((4,), 2, dtype="mixed_float16")
    network.compile(optimizer="sgd")
    assert isinstance(network.optimizer, keras.optimizers.LossScaleOptimizer)


def test_the_precision_of_a_network_inside_a_network_is_found():
    state = keras.Input((4,))
    outer = keras.Model(state, mlp((4,), 2, dtype="mixed_float16")(state))
    assert outer.dtype_policy.name == "float32"
    assert network_precision(outer) == "mixed_float16"


LOAD = """
import sys
sys.modules["dqn_lab"] = None  # importing it raises
import keras, numpy as np
for name in sys.argv[1:]:
    network = keras.models.load_model(name + ".keras", compile=False)
    inputs = list(np.load(name + ".inputs.npz").values())
    np.savez(name + ".loaded.npz", *keras.tree.flatten(network(inputs if len(inputs) > 1 else inputs[0])))
"""


@pytest.mark.case("B096")
@old_array_protocol
def test_saved_networks_load_without_dqn_lab_and_give_the_same_values(tmp_path):
    networks = {
        "nature": nature(ATARI, 4, seed=1),
        "dueling": nips(ATARI, 4, seed=1, dueling=True, dtype="mixed_bfloat16"),
        "catch": catch((10, 5), 3, seed=1, dueling=True),
        "mlp": mlp((3,), 2, seed=1, dtype="mixed_float16"),
        "actor_critic": catch((10, 5), 3, seed=1, actor_critic=True),
        "lstm": small(ATARI, 4, seed=1, actor_critic=True, lstm_units=5),
        "segment": over_time(mlp((3,), 2, seed=1, actor_critic=True, lstm_units=5)),
    }
    values = {}
    for name, network in networks.items():
        inputs = [_frames(3, entry.shape[1:]).astype(entry.dtype) for entry in network.inputs]
        if name == "segment":
            inputs[1:] = [part[:1] for part in inputs[1:]]
        values[name] = keras.tree.flatten(network(inputs if len(inputs) > 1 else inputs[0]))
        assert "Lambda" not in network.to_json()
        assert "dqn_lab" not in network.to_json()
        network.save(tmp_path / f"{name}.keras")
        np.savez(tmp_path / f"{name}.inputs.npz", *inputs)
    command = [sys.executable, "-c", LOAD, *networks]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    for name in networks:
        loaded = np.load(tmp_path / f"{name}.loaded.npz").values()
        for again, value in zip(loaded, values[name], strict=True):
            np.testing.assert_array_equal(again, value)


@pytest.mark.case("B083")
@pytest.mark.parametrize("build", [nature, nips])
def test_channels_first_is_refused(build):
    with pytest.raises(ValueError) as error:
        build((4, 84, 84), 4)
    assert "(height, width, channels), channels last" in str(error.value)
    assert "looks channels first: move the first axis to the end" in str(error.value)
    assert str(error.value).endswith("Received: state_shape=(4, 84, 84)")


def test_the_users_image_data_format_does_not_matter():
    keras.config.set_image_data_format("channels_first")
    try:
        network = nature(ATARI, 4)
    finally:
        keras.config.set_image_data_format("channels_last")
    assert network.count_params() == 1_686_180
    assert network.get_layer("convolution_1").output.shape == (None, 20, 20, 32)
    assert network.get_layer("flatten").data_format == "channels_last"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: nature((84, 84), 4), "at least 36 by 36 pixels. Received: state_shape=\\(84, 84\\)"),
        (lambda: nature((35, 84, 4), 4), "at least 36 by 36 pixels. Received: state_shape=\\(35, "),
        (lambda: nips((19, 84, 4), 4), "at least 20 by 20 pixels"),
        (lambda: catch((10,), 3), r"\(height, width\[, channels\]\), .*state_shape=\(10,\)"),
        (lambda: mlp((0,), 2), "`state_shape` must be at least 1. Received: state_shape=0"),
        (lambda: mlp((4,), 0), "`num_actions` must be at least 1. Received: num_actions=0"),
        (lambda: mlp((4,), 2, hidden=(0,)), "`hidden` must be at least 1. Received: hidden=0"),
        (lambda: mlp((4,), 2, seed=-1), "`seed` must be at least 0. Received: seed=-1"),
        (lambda: mlp((4,), 2, dtype="float16"), "`dtype` must be .* Received: dtype='float16'"),
        (lambda: mlp((4,), 2, lstm_units=8), "`lstm_units` is for an actor-critic only. Received: lstm_units=8"),
        (lambda: small(ATARI, 2, dueling=True, actor_critic=True), "`dueling` is .* not for an actor-critic"),
        (lambda: catch((9, 9), 2, lstm_units=-1), "`lstm_units` must be at least 0. Received: lstm_units=-1"),
        (lambda: over_time(mlp((4,), 2)), "`network` must have an LSTM. Received: network.name='mlp'"),
        (lambda: mlp((4,), 2, state_dtype="int8"), "`state_dtype` .* Received: state_dtype='int8'"),
    ],
)
def test_bad_arguments_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: mlp(4, 2), "`state_shape` must be a tuple of integers. Received: state_shape=4"),
        (lambda: mlp((4,), 2, hidden=64), "`hidden` must be a tuple .* Received: hidden=64"),
        (lambda: mlp((4,), 2.0), "`num_actions` must be an integer. Received: num_actions=2.0"),
        (lambda: mlp((4,), 2, seed=None), "`seed` must be an integer. Received: seed=None"),
        (lambda: mlp((4,), 2, actor_critic=1), "`actor_critic` must be True or False. Received: actor_critic=1"),
    ],
)
def test_arguments_of_another_type_are_refused(build, message):
    with pytest.raises(TypeError, match=message):
        build()


@pytest.mark.parametrize("shape", [(36, 36, 1), (36, 100, 2)])
def test_the_smallest_pictures_of_nature_fit(shape):
    assert nature(shape, 2)(np.zeros((1, *shape), np.uint8)).shape == (1, 2)


def test_the_smallest_pictures_of_nips_fit():
    assert nips((20, 20, 1), 2)(np.zeros((1, 20, 20, 1), np.uint8)).shape == (1, 2)
