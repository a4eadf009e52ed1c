"""Layers with initial weights drawn from one seed, and the heads that turn features into values."""

import math

import keras
import numpy as np
from keras import ops


class SeededLayers:
    """Adds Keras's own layers to a functional model, each with a seed of its own.

    Kernels and biases start uniformly within a limit:

        initializer    kernels before a ReLU    other kernels      biases
        "torch"        1/sqrt(fan_in)           1/sqrt(fan_in)     1/sqrt(fan_in)     as Torch's layers did, which the
                                                                                      papers' networks were written in
        "he"           sqrt(6/fan_in)           1/sqrt(fan_in)     0                  He et al. (2015), equation 10

    Under "torch" each layer passes on a sixth of its input's variance, and biases soon outweigh what differs from
    state to state; under "he" all of it. An LSTM starts as in Torch under both. Every initializer is a Keras built-in
    with an integer for a seed: the same seed gives the same bits on every device, and a clone of the network starts
    with the same weights.

    Args:
        seed: seed of all weights, at least 0.
        dtype: dtype policy of the layers.
        initializer: "torch" or "he".
    """

    def __init__(self, seed: int, dtype: str, initializer: str = "torch") -> None:
        self.dtype = dtype
        self._initializer = initializer
        self._seeds = np.random.SeedSequence(seed)
        self._made = {"convolution": 0, "hidden": 0}

    def convolution(self, features, filters: int, kernel_size: int, strides: int, padding="valid"):
        """Adds a convolution and its ReLU: [B, H, W, C] -> [B, H', W', filters]."""
        return keras.layers.Conv2D(
            filters,
            kernel_size,
            strides,
            padding,
            data_format="channels_last",  # whatever the user's keras.json says
            activation="relu",
            dtype=self.dtype,
            name=self._next_name("convolution"),
            **self._starts(kernel_size**2 * features.shape[-1], relu=True),
        )(features)

    def hidden(self, features, units: int):
        """Adds a dense layer and its ReLU: [B, F] -> [B, units]."""
        return self._dense(features, units, "relu", self.dtype, self._next_name("hidden"))

    def linear(self, features, units: int, name: str):
        """Adds a dense layer that ends in float32 whatever the precision: [B, F] -> [B, units]."""
        return self._dense(features, units, None, "float32", name)

    def lstm_step(self, features, memory: list):
        """Adds one step of an LSTM: [B, F], memory (hidden, cell) [B, units] each -> [B, units], memory.

        It computes in float32 whatever the precision, since its memory is carried over many steps.
        As in Torch all of its weights start within +-1/sqrt(units), the forget gate's bias too.
        """
        units = memory[0].shape[-1]
        starts = self._uniform(1 / units, ("kernel", "recurrent", "bias"))
        cell = keras.layers.LSTMCell(units, unit_forget_bias=False, dtype="float32", name="lstm", **starts)
        return cell(features, memory)

    def _dense(self, features, units, activation, dtype, name):
        starts = self._starts(features.shape[-1], relu=activation == "relu")
        return keras.layers.Dense(units, activation, dtype=dtype, name=name, **starts)(features)

    def _starts(self, fan_in: int, relu: bool) -> dict[str, keras.Initializer]:
        if self._initializer == "torch":
            return self._uniform(1 / fan_in)
        return self._uniform(6 / fan_in if relu else 1 / fan_in, ("kernel",))  # Keras's biases start at 0

    def _uniform(self, square: float, parts=("kernel", "bias")) -> dict[str, keras.Initializer]:
        limit = math.sqrt(square)
        return {
            f"{part}_initializer": keras.initializers.RandomUniform(-limit, limit, self._next_seed()) for part in parts
        }

    def _next_name(self, kind: str) -> str:
        self._made[kind] += 1  # Keras's own numbers go on from model to model
        return f"{kind}_{self._made[kind]}"

    def _next_seed(self) -> int:
        return int(self._seeds.spawn(1)[0].generate_state(1)[0] >> 1)  # below 2^31: an int32


def action_values(layers: SeededLayers, features, num_actions: int, hidden, dueling: bool):
    """Adds the head of the network: [B, F] -> action values [B, A], float32.

    Args:
        layers: where the layers come from.
        features: [B, F].
        num_actions: number of actions A.
        hidden: units of the last hidden layer, or None without one. With `dueling` each of the two
            streams has one of its own.
        dueling: two streams, V(s) and the advantages A(s, a), instead of one.
    """

    def stream(units, name):
        inner = features if hidden is None else layers.hidden(features, hidden)  # [B, H]
        return layers.linear(inner, units, name)  # [B, units]

    if not dueling:
        return stream(num_actions, "action_values")  # [B, A]
    return dueling_values(stream(1, "state_value"), stream(num_actions, "advantage"))  # [B, A]


def policy_and_value(layers: SeededLayers, features, num_actions: int):
    """Adds the two linear heads of an actor-critic: [B, F] -> logits [B, A], value [B], float32."""
    logits = layers.linear(features, num_actions, "logits")  # [B, A]
    return logits, ops.squeeze(layers.linear(features, 1, "state_value"), axis=1)  # [B]


def dueling_values(state_value, advantage):
    """Returns Q(s, a) = V(s) + A(s, a) - mean_a' A(s, a'): Wang et al. (2016), equation 9.

    The mean is taken over the actions of each row alone. Of the paper's other two changes, the
    factor 1/sqrt(2) on the gradient that enters the last convolution is left out, and the clipping
    of the gradient's norm is the agent's.

    Args:
        state_value: V(s), [B, 1].
        advantage: A(s, .), [B, A].

    Returns:
        Action values, [B, A].
    """
    return state_value + (advantage - ops.mean(advantage, axis=1, keepdims=True))  # [B, A]
