"""Which pixels of a state an action's value depends on, by three ways of going back through a network.

What comes back through a ReLU, from x the signal s that arrives from above:

    "gradient"    s * (x > 0)              Simonyan, Vedaldi and Zisserman (2014): the derivative itself
    "deconvnet"   s * (s > 0)              Zeiler and Fergus (2014): whatever went through on the way up
    "guided"      s * (x > 0) * (s > 0)    Springenberg et al. (2015): both

All else, an LSTM too, passes signals on by its derivative.
"""

import keras
import numpy as np
import tensorflow as tf

from dqn_lab.arguments import require_choice

METHODS = ("gradient", "guided", "deconvnet")
_NEVER = -1e9  # a logit of an action that isn't there


class Saliency:
    """The signals of a network at the pixels of its states. It keeps a copy of the network as it is now.

    Of action values the signal goes out from that of the action taken, in a dueling network through both streams. Of
    an actor-critic it goes out from the action's log-odds, log p/(1 - p): the map is that of its log-probability, but
    doesn't fade where the policy is sure.

    Args:
        network: as `dqn_lab.models.networks` builds it, or another functional one on pictures.
        method: "gradient", "guided" or "deconvnet".
        actor_critic: the network returns logits and a value, with an LSTM the memory too; else action values.

    Raises:
        ValueError: the states are no pictures [H, W, C], or a network without ReLUs knows the gradient alone.
    """

    def __init__(self, network: keras.Model, method: str, *, actor_critic: bool = False) -> None:
        self.method = require_choice("method", method, METHODS)
        shape = network.inputs[0].shape[1:]
        if len(shape) != 3:
            raise ValueError(f"Saliency needs states that are pictures, [H, W, C]. Received: state_shape={shape}")
        self._network, replaced = _with_rule(network, method)
        if method != "gradient" and not replaced:
            raise ValueError(f"The network has no ReLU: of it there is the gradient only. Received: method={method!r}")
        self._actor_critic = actor_critic
        self._compiled = tf.function(self._signals)

    def __call__(self, states: np.ndarray, actions: np.ndarray, memory: np.ndarray | None = None) -> np.ndarray:
        """Returns what comes back at the pixels. [B, H, W, C] -> [B, H, W, C] float32

        Args:
            states: as the network takes them.
            actions: those taken, [B].
            memory: of an LSTM before these states, [2, B, U].
        """
        memory = () if memory is None else tuple(map(tf.convert_to_tensor, memory))
        return self._compiled(tf.convert_to_tensor(states), tf.convert_to_tensor(actions, tf.int32), memory).numpy()

    def _signals(self, states, actions, memory):
        states = tf.cast(states, self._network.inputs[0].dtype)  # [B, H, W, C]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(states)
            outputs = self._network([states, *memory] if memory else states, training=False)
            values = outputs[0] if self._actor_critic else outputs  # [B, A]
            taken = tf.one_hot(actions, values.shape[1], dtype=values.dtype)  # [B, A]
            score = tf.reduce_sum(values * taken, axis=1)  # [B]
            if self._actor_critic:
                score -= tf.reduce_logsumexp(values + _NEVER * taken, axis=1)  # [B]
        return tf.cast(tape.gradient(score, states, unconnected_gradients="zero"), "float32")  # [B, H, W, C]


@tf.custom_gradient
def _guided(x):
    return tf.nn.relu(x), lambda signal: tf.nn.relu(signal) * tf.cast(x > 0, signal.dtype)


@tf.custom_gradient
def _deconvnet(x):
    return tf.nn.relu(x), tf.nn.relu


_RULES = {"gradient": tf.nn.relu, "guided": _guided, "deconvnet": _deconvnet}


def _with_rule(network: keras.Model, method: str) -> tuple[keras.Model, int]:
    """A copy of a network whose ReLUs go back by a rule, for states as real numbers, and how many it has of them."""
    rule, replaced = _RULES[method], []

    def copied(layer):
        copy = layer.__class__.from_config(layer.get_config())
        if _is_relu(layer):
            copy = keras.layers.Activation(rule, name=layer.name, dtype=getattr(layer, "dtype_policy", None))
        elif isinstance(layer, keras.layers.RNN):
            return copy
        elif getattr(layer, "activation", None) is keras.activations.relu:
            copy.activation = rule
        else:
            return copy
        replaced.append(layer.name)
        return copy

    state, *others = network.inputs
    inputs = [keras.Input(state.shape[1:], dtype=_real(state.dtype), name="state")]
    inputs += [keras.Input(each.shape[1:], dtype=each.dtype, name=f"memory_{n}") for n, each in enumerate(others)]
    inputs = keras.tree.pack_sequence_as(network.input, inputs)
    clone = keras.models.clone_model(network, input_tensors=inputs, clone_function=copied, recursive=True)
    clone.set_weights(network.get_weights())
    return clone, len(replaced)


def _is_relu(layer) -> bool:
    plain = {"max_value": None, "negative_slope": 0, "threshold": 0}
    if isinstance(layer, keras.layers.ReLU):
        return all(getattr(layer, name) == value for name, value in plain.items())
    return type(layer).__name__ == "Relu"  # what `keras.ops.relu` leaves in a functional model


def _real(dtype: str) -> str:
    """Bytes have no derivative: the network's scaling takes real numbers from 0 to 255 as well."""
    return dtype if "float" in dtype else "float32"
