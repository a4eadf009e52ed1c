"""What an agent refuses: networks it cannot train, arguments out of range, logs and states that are none."""

import numbers

import keras
import numpy as np
import tensorflow as tf


def check_network(network) -> None:
    """Checks that a network can be cloned and gives one table of action values.

    Raises:
        TypeError: it is no built functional or Sequential model.
        ValueError: it has more than one input or output, or another shape of output.
    """
    is_model = isinstance(network, keras.Model) and network.built
    if not is_model or not getattr(network, "outputs", None):  # only those have symbolic outputs
        raise TypeError(
            "`network` must be a built functional or Sequential Keras model, states [B, ...] -> action values [B, A] "
            f"(a subclass `m` as keras.Model(state, m(state)), state a keras.Input). Received: network={network!r}"
        )
    nested = not isinstance(network, keras.Sequential) and any(
        map(keras.tree.is_nested, (network.input, network.output))
    )
    if nested or len(network.outputs[0].shape) != 2:
        raise ValueError(
            "`network` must take states [B, ...] and return action values [B, A]. "
            f"Received: inputs={_shapes(network.inputs)}, outputs={_shapes(network.outputs)}"
        )
    _check_float(network)


def check_fits(network, sequence) -> None:
    """Checks that a network takes a sequence's states, gives a value to each of its actions, and can learn.

    Raises:
        ValueError: it does not.
    """
    if not network.trainable_variables:
        raise ValueError("The network must have weights to train. Received: none, or trainable=False")
    output_shape = tuple(network.outputs[0].shape)  # of action values, or of a policy's logits
    if output_shape[-1] != sequence.num_actions:
        raise ValueError(
            f"The network must return one value per action, {sequence.num_actions} here. "
            f"Received: output_shape={output_shape}"
        )
    expected, shape = network.inputs[0].shape[1:], tuple(sequence.state_shape)
    if len(expected) != len(shape) or any(size not in (None, own) for size, own in zip(expected, shape, strict=True)):
        raise ValueError(f"The network must take states of shape {shape}. Received: input_shape={(None, *expected)}")
    dtype = keras.backend.standardize_dtype(network.inputs[0].dtype)
    if "int" in dtype and sequence.state_dtype.kind == "f":  # Keras would cast 0.5 to 0 without a word
        raise ValueError(
            f"The network must not cast states of {sequence.state_dtype} to integers. Received: input dtype {dtype}"
        )


def as_states(network, states) -> np.ndarray:
    """Returns a batch of states as an array [B, ...].

    Raises:
        ValueError: the network takes states of another shape.
    """
    states, shape = np.asarray(states), network.inputs[0].shape[1:]
    if states.shape[1:] != shape or not states.ndim:
        raise ValueError(f"States must have shape [B, {', '.join(map(str, shape))}]. Received: {states.shape}")
    return states


def _check_float(network) -> None:
    dtype = keras.backend.standardize_dtype(network.outputs[0].dtype)
    if "float" not in dtype:
        raise ValueError(f"`network` must return floating-point action values. Received: output dtype {dtype}")


def _shapes(tensors: list) -> list:
    return [tuple(tensor.shape) for tensor in tensors]


def check_logs(logs) -> None:
    """Refuses what a `train_step` returned, unless it is a dict of numbers.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(logs, dict):
        raise TypeError(f"`train_step` must return a dict of numbers. Received: {type(logs).__name__}")
    for name, value in logs.items():
        if not _is_number(value):
            shape = f" of shape {tuple(value.shape)}" if hasattr(value, "shape") else ""
            raise TypeError(
                f"`train_step` must return a dict of numbers. Received: {name}={type(value).__name__}{shape}"
            )


def _is_number(value) -> bool:
    if isinstance(value, int | float):
        return True
    try:
        kind = tf.as_dtype(getattr(value, "dtype", type(value)))
    except TypeError:
        return False
    return (kind.is_floating or kind.is_integer or kind.is_bool) and getattr(value, "shape", ()) == ()


def check_clip(gradient_clip) -> None:
    """Refuses a largest gradient norm that is none.

    Raises:
        TypeError: it is neither a number nor None.
        ValueError: it is not above 0.
    """
    if gradient_clip is None:
        return
    if isinstance(gradient_clip, bool) or not isinstance(gradient_clip, numbers.Real):
        raise TypeError(f"`gradient_clip` must be a number or None. Received: gradient_clip={gradient_clip!r}")
    if not gradient_clip > 0:
        raise ValueError(f"`gradient_clip` must be positive or None. Received: gradient_clip={gradient_clip}")


def check_agent_state(state: dict, variables: list) -> None:
    """Refuses what an agent with these variables outside its file cannot take for its state.

    Raises:
        ValueError: something is missing, or of another kind or shape.
    """
    wanted = {"variables": list, "logs": dict, "in_epoch": bool}
    wrong = [name for name, kind in wanted.items() if not isinstance(state.get(name), kind)]
    if wrong:
        raise ValueError(f"An agent's state must be what `get_state` returned. Received: no {', '.join(wrong)}")
    own, given = _shapes(variables), [np.shape(value) for value in state["variables"]]
    if own != given:
        raise ValueError(f"The state must be of an agent whose metrics and seeds have shapes {own}. Received: {given}")
