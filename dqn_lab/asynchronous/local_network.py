"""A worker's own copy of the network: parameters in, actions and gradients out, each compiled once."""

import keras
import numpy as np
import tensorflow as tf

from dqn_lab.asynchronous.methods import Method
from dqn_lab.models.networks import over_time


class LocalNetwork:
    """The networks of one worker, whose parameters it is given as one flat array [P].

    Parameters stand in the order of `network.trainable_variables`, each in row-major order.

    Args:
        network: as `models.networks` builds it; its parameters are overwritten.
        method: the rule that says what a segment costs.

    Attributes:
        size: numbers in all parameters, P.
        lstm_units: units U of the network's LSTM; 0 without one.
    """

    def __init__(self, network: keras.Model, method: Method):
        self._network = network
        self._target = keras.models.clone_model(network) if method.needs_target else None
        self._method = method
        self._variables = [variable.value for variable in network.trainable_variables]
        self._sizes = [int(np.prod(variable.shape)) for variable in self._variables]
        self.size = sum(self._sizes)
        self.lstm_units = network_memory(network)
        self._whole = over_time(network) if self.lstm_units else network
        self._compile()

    def load(self, parameters: np.ndarray) -> None:
        """Takes over parameters, [P] float32."""
        self._load(tf.constant(parameters))

    def load_target(self, parameters: np.ndarray) -> None:
        """Takes over the target network's parameters, [P] float32."""
        self._load_target(tf.constant(parameters))

    def values(self, state: np.ndarray) -> np.ndarray:
        """Returns action values, or a policy's logits, of one state. [1, ...] -> [1, A]"""
        return self._values(self._states(state)).numpy()

    def recall(self, state: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `values`, of a network with an LSTM.

        Args:
            state: [1, ...].
            memory: hidden state and cell before it, [2, 1, U].

        Returns:
            Logits [1, A], and the memory behind it [2, 1, U].
        """
        logits, memory = self._recall(self._states(state), tf.constant(memory))
        return logits.numpy(), memory.numpy()

    def gradient(self, segment: dict[str, np.ndarray]) -> tuple[np.ndarray, float, float]:
        """Computes what a segment teaches.

        Args:
            segment: as `Method.loss` takes it, and with an LSTM the memory before its first state, [2, 1, U].

        Returns:
            The gradient of the segment's loss, [P] float32; the loss; the sum of the steps' values.
        """
        state, *others = (segment[name] for name in self._inputs)
        gradient, figures = self._gradient(self._states(state), *map(tf.constant, others))
        loss, values = figures.numpy().tolist()
        return gradient.numpy(), loss, values

    @property
    def trace_count(self) -> int:
        """How many graphs have been compiled, of all functions here together."""
        return len(self._traces)

    def _states(self, states: np.ndarray) -> tf.Tensor:
        return tf.constant(states, self._network.inputs[0].dtype)  # of environments in float64, say

    def _compile(self) -> None:
        state_shape, dtype = self._network.inputs[0].shape[1:], self._network.inputs[0].dtype
        state = tf.TensorSpec((1, *state_shape), dtype)
        states = tf.TensorSpec((None, *state_shape), dtype)
        numbers, integers = tf.TensorSpec((None,), tf.float32), tf.TensorSpec((None,), tf.int32)
        memory = tf.TensorSpec((2, 1, self.lstm_units), tf.float32)
        flat = tf.TensorSpec((self.size,), tf.float32)
        inputs = {"state": states, "action": integers, "reward": numbers, "discount": numbers}
        if self._method.needs_next_action:
            inputs["next_action"] = integers
        if self.lstm_units:
            inputs["memory"] = memory
        self._inputs = tuple(inputs)
        self._traces = []
        self._load = self._trace(lambda given: self._assign(self._variables, given), flat)
        if self._target is not None:
            target = [variable.value for variable in self._target.trainable_variables]
            self._load_target = self._trace(lambda given: self._assign(target, given), flat)
        self._gradient = self._trace(self._flat_gradient, *inputs.values())
        if self.lstm_units:
            self._recall = self._trace(self._logits_and_memory, state, memory)
        else:
            self._values = self._trace(lambda given: self._first(self._network(given, training=False)), state)

    def _trace(self, function, *signature):
        # A concrete function is called without the look-up of tf.function, and can't be traced again.
        self._traces.append(tf.function(function).get_concrete_function(*signature))
        return self._traces[-1]

    def _first(self, outputs):
        return outputs[0] if self._method.actor_critic else outputs

    def _logits_and_memory(self, state, memory):
        logits, _, hidden, cell = self._network([state, *tf.unstack(memory)], training=False)
        return logits, tf.stack([hidden, cell])  # [1, A], [2, 1, U]

    def _assign(self, variables, flat):
        for variable, part in zip(variables, tf.split(flat, self._sizes), strict=True):
            variable.assign(tf.reshape(part, variable.shape))

    def _flat_gradient(self, *inputs):
        segment = dict(zip(self._inputs, inputs, strict=True))
        memory = segment.pop("memory", None)

        def forward(states):
            if memory is None:
                return self._whole(states, training=True)
            return self._whole([states, *tf.unstack(memory)], training=True)[:2]

        with tf.GradientTape() as tape:
            loss, values = self._method.loss(forward, self._target_values, segment)
        gradients = tape.gradient(loss, self._variables, unconnected_gradients="zero")
        flat = tf.concat([tf.reshape(gradient, [-1]) for gradient in gradients], axis=0)  # [P]
        return flat, tf.stack([loss, tf.reduce_sum(values)])

    def _target_values(self, states):
        return self._target(states, training=False)  # [T, A]


def network_memory(network: keras.Model) -> int:
    """Returns the units of a network's LSTM, whose memory is its second and third input; 0 without one."""
    return int(network.inputs[1].shape[-1]) if len(network.inputs) == 3 else 0
