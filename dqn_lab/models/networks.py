"""Networks from states to action values, or to a policy and a value, as plain Keras models.

They are functional models of Keras's own layers and operations and nothing else, so a saved one
loads wherever Keras is, without this package. All take a batch of states [B, ...] and give float32
numbers. Where states are uint8 they enter as bytes and are scaled to 0..1 here, once.

    values = network(state)                                          action values [B, A]
    logits, value = network(state)                                   `actor_critic`: [B, A], [B]
    logits, value, hidden, cell = network([state, hidden, cell])     with `lstm_units` U: memory [B, U] twice

The memory of an LSTM goes in and out with each call and is kept nowhere else: it is 0 when an episode
begins, what comes out goes in with the next state, and a call whose memory is dropped (to value the
state that a segment ends in) leaves no trace. `over_time` takes a whole segment at once.
"""

from collections.abc import Iterable, Sequence

import keras
from keras import ops

from dqn_lab.arguments import require_choice, require_flag, require_integer
from dqn_lab.models.layers import SeededLayers, action_values, policy_and_value

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
STATE_DTYPES = ("uint8", "float32")
INITIALIZERS = ("torch", "he")


def nature(
    state_shape: Sequence[int],
    num_actions: int,
    *,
    dueling: bool = False,
    seed: int = 0,
    dtype: str = "float32",
    state_dtype: str = "uint8",
    initializer: str = "torch",
) -> keras.Model:
    """Builds the network of Mnih et al. (2015): 32 8x8/4, 64 4x4/2, 64 3x3/1 (valid), 512.

    1,686,180 parameters for (84, 84, 4) and 4 actions.

    Args:
        state_shape: (height, width, channels) without the batch, at least 36 by 36; a stack of
            frames is the channels, the newest last.
        num_actions: number of actions A.
        dueling: two streams of 512, state value and advantages (Wang et al., 2016).
        seed: seed of the initial weights, an integer from 0.
        dtype: precision, "float32", "mixed_bfloat16" or "mixed_float16".
        state_dtype: "uint8" (scaled by 1/255 inside) or "float32" (taken as it is).
        initializer: how the weights start, "torch" or "he": see `SeededLayers`.

    Raises:
        ValueError: a shape, number or name is none of these.
        TypeError: a number is no integer.
    """
    layers, state, x = _begin(state_shape, num_actions, seed, dtype, state_dtype, initializer, min_size=36)
    x = layers.convolution(x, 32, 8, 4)  # [B, 20, 20, 32] of 84x84
    x = layers.convolution(x, 64, 4, 2)  # [B, 9, 9, 64]
    x = layers.convolution(x, 64, 3, 1)  # [B, 7, 7, 64]
    return _finish("nature", layers, state, x, num_actions, 512, dueling)


def nips(
    state_shape: Sequence[int],
    num_actions: int,
    *,
    dueling: bool = False,
    actor_critic: bool = False,
    lstm_units: int = 0,
    seed: int = 0,
    dtype: str = "float32",
    state_dtype: str = "uint8",
    initializer: str = "torch",
) -> keras.Model:
    """Builds the network of Mnih et al. (2013) and (2016): 16 8x8/4, 32 4x4/2 (valid), 256.

    The asynchronous methods' actor-critic is this one with `actor_critic=True`, and with an LSTM
    `lstm_units=256`.

    Args:
        state_shape: (height, width, channels) without the batch, at least 20 by 20; a stack of
            frames is the channels, the newest last.
        num_actions: number of actions A.
        dueling: two streams of 256, state value and advantages (Wang et al., 2016).
        actor_critic: a policy's logits and a state value on one last hidden layer, no action values.
        lstm_units: units of an LSTM behind that layer, for an actor-critic; 0 is none.
        seed: seed of the initial weights, an integer from 0.
        dtype: precision, "float32", "mixed_bfloat16" or "mixed_float16".
        state_dtype: "uint8" (scaled by 1/255 inside) or "float32" (taken as it is).
        initializer: how the weights start, "torch" or "he": see `SeededLayers`.

    Raises:
        ValueError: a shape, number or name is none of these, or two heads don't go together.
        TypeError: a number is no integer.
    """
    layers, state, x = _begin(state_shape, num_actions, seed, dtype, state_dtype, initializer, min_size=20)
    x = layers.convolution(x, 16, 8, 4)  # [B, 20, 20, 16] of 84x84
    x = layers.convolution(x, 32, 4, 2)  # [B, 9, 9, 32]
    return _finish("nips", layers, state, x, num_actions, 256, dueling, actor_critic, lstm_units)


small = nips  # the asynchronous methods' name for it


def catch(
    state_shape: Sequence[int],
    num_actions: int,
    *,
    dueling: bool = False,
    actor_critic: bool = False,
    lstm_units: int = 0,
    seed: int = 0,
    dtype: str = "float32",
    state_dtype: str = "float32",
    initializer: str = "torch",
) -> keras.Model:
    """Builds a small network for Catch's grids, (10, 5) or (24, 24): 16 3x3/2, 32 3x3/2 (same), 64.

    Args:
        state_shape: (height, width) or (height, width, channels), without the batch.
        num_actions: number of actions A.
        dueling: two streams of 64, state value and advantages (Wang et al., 2016).
        actor_critic: a policy's logits and a state value on one last hidden layer, no action values.
        lstm_units: units of an LSTM behind that layer, for an actor-critic; 0 is none.
        seed: seed of the initial weights, an integer from 0.
        dtype: precision, "float32", "mixed_bfloat16" or "mixed_float16".
        state_dtype: "uint8" (scaled by 1/255 inside) or "float32" (taken as it is).
        initializer: how the weights start, "torch" or "he": see `SeededLayers`.

    Raises:
        ValueError: a shape, number or name is none of these, or two heads don't go together.
        TypeError: a number is no integer.
    """
    layers, state, x = _begin(state_shape, num_actions, seed, dtype, state_dtype, initializer, min_size=1, ranks=(2, 3))
    if len(state.shape) == 3:
        x = keras.layers.Reshape((*state.shape[1:], 1), dtype=dtype, name="image")(x)  # [B, H, W, 1]
    x = layers.convolution(x, 16, 3, 2, "same")  # [B, 5, 3, 16] of 10x5
    x = layers.convolution(x, 32, 3, 2, "same")  # [B, 3, 2, 32]
    return _finish("catch", layers, state, x, num_actions, 64, dueling, actor_critic, lstm_units)


def mlp(
    state_shape: Sequence[int],
    num_actions: int,
    *,
    hidden: Sequence[int] = (64, 64),
    dueling: bool = False,
    actor_critic: bool = False,
    lstm_units: int = 0,
    seed: int = 0,
    dtype: str = "float32",
    state_dtype: str = "float32",
    initializer: str = "torch",
) -> keras.Model:
    """Builds dense layers on the flattened state.

    Args:
        state_shape: any shape, without the batch.
        num_actions: number of actions A.
        hidden: units of each hidden layer; () is a linear network.
        dueling: the last hidden layer twice, one for the state value, one for the advantages.
        actor_critic: a policy's logits and a state value on one last hidden layer, no action values.
        lstm_units: units of an LSTM behind that layer, for an actor-critic; 0 is none.
        seed: seed of the initial weights, an integer from 0.
        dtype: precision, "float32", "mixed_bfloat16" or "mixed_float16".
        state_dtype: "uint8" (scaled by 1/255 inside) or "float32" (taken as it is).
        initializer: how the weights start, "torch" or "he": see `SeededLayers`.

    Raises:
        ValueError: a shape, number or name is none of these, or two heads don't go together.
        TypeError: a number is no integer.
    """
    layers, state, x = _begin(state_shape, num_actions, seed, dtype, state_dtype, initializer)
    *trunk, last = _sizes("hidden", hidden) or (None,)
    x = _flat(x, dtype)  # [B, F]
    for units in trunk:
        x = layers.hidden(x, units)  # [B, units]
    return _finish("mlp", layers, state, x, num_actions, last, dueling, actor_critic, lstm_units)


def over_time(network: keras.Model) -> keras.Model:
    """Returns the same layers of an LSTM network for one sequence: a segment in one call.

    Its rows are consecutive steps [T, ...], and the memory [1, U] is the one before the first of
    them, so that all but the LSTM runs in one batch:

        logits, value, hidden, cell = over_time(network)([state, hidden, cell])     [T, A], [T], [1, U] twice

    Both models share every variable, and hold them in the same order.

    Args:
        network: a network with an LSTM from this module.

    Raises:
        ValueError: `network` has no LSTM.
    """
    if not any(layer.name == "lstm" for layer in network.layers):
        raise ValueError(f"`network` must have an LSTM. Received: network.name={network.name!r}")

    def call(layer, *inputs, **options):
        if layer.name != "lstm":
            return layer(*inputs, **options)
        features, memory = inputs  # [T, F], (hidden, cell)
        run = keras.layers.RNN(layer, return_sequences=True, return_state=True, dtype="float32", name="over_time")
        hidden, *memory = run(ops.expand_dims(features, 0), initial_state=memory)  # [1, T, U]
        # Not `squeeze`: the head has one, whose number is in its name, and a new process numbers from the beginning.
        return hidden[0], memory  # [T, U], each [1, U]

    return keras.models.clone_model(network, clone_function=lambda layer: layer, call_function=call)


def network_precision(network: keras.Model) -> str:
    """Returns "mixed_float16", "mixed_bfloat16" or "float32", read from the network's layers.

    A functional model forgets its own dtype policy when it is cloned or saved; its layers don't.
    Loss scaling follows the policy of the model that is compiled: give that one this precision.
    """
    found, layers = set(), [network]
    while layers:
        layer = layers.pop()
        found.add(layer.dtype_policy.name)
        layers.extend(getattr(layer, "layers", ()))  # a network within the network
    return next((name for name in reversed(PRECISIONS) if name in found), "float32")


def _begin(state_shape, num_actions, seed, dtype, state_dtype, initializer, min_size=None, ranks=(3,)):
    """Checks the arguments; returns the layers, the input and the scaled state, both [B, ...]."""
    shape = _sizes("state_shape", state_shape)
    if min_size is not None:
        _check_image(shape, min_size, ranks)
    require_integer("num_actions", num_actions, least=1)
    require_choice("dtype", dtype, PRECISIONS)
    require_choice("state_dtype", state_dtype, STATE_DTYPES)
    require_choice("initializer", initializer, INITIALIZERS)
    layers = SeededLayers(require_integer("seed", seed, least=0), dtype, initializer)
    state = keras.Input(shape, dtype=state_dtype, name="state")  # [B, ...]
    if state_dtype == "uint8":
        return layers, state, keras.layers.Rescaling(1 / 255, dtype=dtype, name="scaling")(state)
    return layers, state, state


def _finish(name, layers, state, features, num_actions, hidden, dueling, actor_critic=False, lstm_units=0):
    _check_heads(dueling, actor_critic, lstm_units)
    if len(features.shape) > 2:
        features = _flat(features, layers.dtype)  # [B, F]
    if actor_critic:
        inputs, outputs = _actor_critic(layers, state, features, num_actions, hidden, lstm_units)
    else:
        inputs, outputs = state, action_values(layers, features, num_actions, hidden, dueling)  # [B, A]
    network = keras.Model(inputs, outputs, name=name)
    network.dtype_policy = keras.dtype_policies.get(layers.dtype)
    return network


def _actor_critic(layers, state, features, num_actions, hidden, lstm_units):
    """Returns the inputs and outputs of an actor-critic."""
    if hidden is not None:
        features = layers.hidden(features, hidden)  # [B, H]
    if not lstm_units:
        return state, policy_and_value(layers, features, num_actions)
    memory = [keras.Input((lstm_units,), dtype="float32", name=name) for name in ("hidden", "cell")]
    features, memory_after = layers.lstm_step(features, memory)  # [B, U], [B, U] twice
    return [state, *memory], [*policy_and_value(layers, features, num_actions), *memory_after]


def _flat(features, dtype):
    return keras.layers.Flatten("channels_last", dtype=dtype, name="flatten")(features)  # [B, F]


def _sizes(name, given):
    if not isinstance(given, Iterable):
        raise TypeError(f"`{name}` must be a tuple of integers. Received: {name}={given!r}")
    return tuple(require_integer(name, size, least=1) for size in given)


def _check_heads(dueling, actor_critic, lstm_units):
    require_flag("actor_critic", actor_critic)
    require_integer("lstm_units", lstm_units, least=0)
    if actor_critic and dueling:
        raise ValueError("`dueling` is for action values, not for an actor-critic. Received: dueling=True")
    if lstm_units and not actor_critic:
        raise ValueError(f"`lstm_units` is for an actor-critic only. Received: lstm_units={lstm_units}")


def _check_image(shape, min_size, ranks):
    if len(shape) in ranks and min(shape[:2]) >= min_size:
        return
    first = len(shape) == 3 and shape[0] < min_size <= min(shape[1:])
    hint = " This one looks channels first: move the first axis to the end." if first else ""
    axes = "(height, width, channels)" if ranks == (3,) else "(height, width[, channels])"
    raise ValueError(
        f"`state_shape` must be {axes}, channels last, with at least {min_size} by {min_size} "
        f"pixels.{hint} Received: state_shape={shape}"
    )
