"""Checks that a network is one that an agent can train, and that it fits a sequence."""

import keras


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
    num_actions = network.output_shape[-1]
    if num_actions != sequence.num_actions:
        raise ValueError(
            f"The network must return one value per action, {sequence.num_actions} here. "
            f"Received: output_shape={network.output_shape}"
        )
    expected, shape = network.inputs[0].shape[1:], tuple(sequence.state_shape)
    if len(expected) != len(shape) or any(size not in (None, own) for size, own in zip(expected, shape, strict=True)):
        raise ValueError(f"The network must take states of shape {shape}. Received: input_shape={(None, *expected)}")
    dtype = keras.backend.standardize_dtype(network.inputs[0].dtype)
    if "int" in dtype and sequence.state_dtype.kind == "f":  # Keras would cast 0.5 to 0 without a word
        raise ValueError(
            f"The network must not cast states of {sequence.state_dtype} to integers. Received: input dtype {dtype}"
        )


def _check_float(network) -> None:
    dtype = keras.backend.standardize_dtype(network.outputs[0].dtype)
    if "float" not in dtype:
        raise ValueError(f"`network` must return floating-point action values. Received: output dtype {dtype}")


def _shapes(tensors: list) -> list:
    return [tuple(tensor.shape) for tensor in tensors]
