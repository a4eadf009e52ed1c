"""The agent of an asynchronous run: the network that its workers train, to act by, to evaluate and to save."""

import copy
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from dqn_lab.agents.checks import as_states, check_network
from dqn_lab.agents.compiled_function import CompiledFunction
from dqn_lab.arguments import require_flag, require_fraction
from dqn_lab.asynchronous.game_policy import GamePolicy
from dqn_lab.asynchronous.local_network import network_memory
from dqn_lab.exploration import epsilon_greedy, perturbed_logits
from dqn_lab.models.networks import network_precision
from dqn_lab.targets import as_row, selected_values, td_error


@keras.saving.register_keras_serializable("dqn_lab")
class AsynchronousAgent(keras.Model):
    """A network of action values, or of a policy and a state value. It learns nothing by itself.

    Args:
        network: as `dqn_lab.models.networks` builds it; its weights are the agent's.
        actor_critic: it returns logits and a value, with an LSTM the memory too; else action values.
        greedy: an actor-critic takes its policy's most likely action, instead of sampling.

    Attributes:
        network: a plain Keras model.
        sequence: what callbacks read counters, gamma and protocol from; None before a run.
        updates: gradient steps of all workers together, as the run says; saved with the agent.

    Raises:
        TypeError, ValueError: an argument has the wrong type, or `network` has other inputs or outputs.
    """

    def __init__(self, network: keras.Model, *, actor_critic: bool = False, greedy: bool = False, **kwargs) -> None:
        (_check_actor_critic if require_flag("actor_critic", actor_critic) else check_network)(network)
        require_flag("greedy", greedy)
        kwargs.setdefault("dtype", network_precision(network))
        super().__init__(**kwargs)
        self.network, self.actor_critic, self.greedy = network, actor_critic, greedy
        self.update_count = self.add_weight(
            shape=(), dtype="int64", initializer="zeros", trainable=False, name="update_count"
        )
        self.built = True
        self.sequence = None
        self._lstm_units = network_memory(network)
        self._compiled_outputs = self._compile_outputs(network)
        self._compiled_td_errors = CompiledFunction(self._td_errors)

    @property
    def updates(self) -> int:
        """Gradient steps made so far, as the run says."""
        return int(self.update_count.numpy())

    @updates.setter
    def updates(self, count: int) -> None:
        self.update_count.assign(count)

    def call(self, inputs, training=None):
        """Returns what the network returns."""
        return self.network(inputs, training=training)

    def act_values(self, states) -> np.ndarray:
        """Returns action values, or a policy's logits. [B, ...] -> [B, A]

        Raises:
            ValueError: the network has an LSTM.
        """
        if self._lstm_units:
            raise ValueError(
                "A network with an LSTM acts by all states of a game, not by one: `agent.lead(twin)` keeps its memory. "
                f"Received: lstm_units={self._lstm_units}"
            )
        return self._compiled_outputs({"state": tf.convert_to_tensor(states)})[0].numpy()  # [B, A]

    def act(self, states: np.ndarray, epsilon: float = 0.0, generator: np.random.Generator | None = None) -> np.ndarray:
        """Returns actions for states: epsilon-greedy, or of an actor-critic that isn't greedy, sampled. [B, ...] -> [B]

        Args:
            states: as the network takes them.
            epsilon: odds of a uniformly random action.
            generator: where the randomness comes from; needed by a policy that is sampled, and above `epsilon` 0.

        Raises:
            ValueError: the network has an LSTM; `epsilon` is no probability; randomness without a generator; the
                states have another shape.
            TypeError: `generator` is no generator.
        """
        if generator is None and (require_fraction("epsilon", epsilon) > 0 or self._samples):
            samples = ", a policy that is sampled" if self._samples else ""
            raise ValueError(f"Random actions need a `generator`. Received: epsilon={epsilon}, generator=None{samples}")
        states = as_states(self.network, states)  # [B, ...]
        values = self.act_values(states)  # [B, A]
        generator = np.random.default_rng(0) if generator is None else generator  # nothing depends on it then
        values = perturbed_logits(values, generator) if self._samples else values  # [B, A]
        return epsilon_greedy(values, epsilon, generator)  # [B]

    def state_values(self, states) -> tf.Tensor:
        """Returns V(s), or the largest action value; with an LSTM as in an episode's first state. [B, ...] -> [B]"""
        states = tf.convert_to_tensor(states)
        return self._compiled_outputs({"state": states, **self._no_memory(states)})[1]  # [B]

    def td_errors(self, batch: dict) -> tf.Tensor:
        """Returns r + discount * V(s') - V(s) of each row of a minibatch. -> [B]

        Of action values the next state's is the largest, and the state's that of the action taken. An LSTM sees the
        state as an episode's first one, and the next state with the memory behind it.
        """
        return self._compiled_td_errors({name: tf.convert_to_tensor(values) for name, values in batch.items()})  # [B]

    def lead(self, twin, network: keras.Model | None = None) -> None:
        """Makes an evaluation twin act as this agent does: sampling, and with its memory, game by game.

        Args:
            twin: of a sequence's `create_validation_instance`.
            network: another network of the same kind to act by; None for the agent's own.
        """
        outputs = self._compiled_outputs if network is None else self._compile_outputs(network)

        def forward(states, memory):
            inputs = {"state": tf.convert_to_tensor(states)}
            if memory is not None:
                inputs |= {"hidden": tf.constant(memory[0]), "cell": tf.constant(memory[1])}
            values, state_values, *memory = outputs(inputs)
            # [N, A], [N], [2, N, U]
            return values.numpy(), state_values.numpy(), np.stack(memory) if memory else None

        twin.policy = GamePolicy(twin, forward, samples=self._samples, lstm_units=self._lstm_units)

    def get_parameters(self) -> np.ndarray:
        """Returns all trainable variables of the network, in its order, as one array. [P] float32"""
        return np.concatenate([each.numpy().ravel() for each in self.network.trainable_variables])

    def set_parameters(self, parameters: np.ndarray) -> None:
        """Takes over what `get_parameters` returned.

        Raises:
            ValueError: it has another size; nothing is changed then.
        """
        variables = self.network.trainable_variables
        ends = np.cumsum([np.prod(each.shape, dtype=int) for each in variables])
        if np.shape(parameters) != (ends[-1],):
            raise ValueError(f"`parameters` must have shape ({ends[-1]},). Received: {np.shape(parameters)}")
        for variable, values in zip(variables, np.split(np.asarray(parameters), ends[:-1]), strict=True):
            variable.assign(values.reshape(variable.shape))

    def check_finite(self) -> None:
        """Raises FloatingPointError, with the variable's name, if a weight is not finite."""
        for each in self.network.trainable_variables:
            if not np.isfinite(each.numpy()).all():
                raise FloatingPointError(f"The weights {each.path} are not finite; they are not saved.")

    def get_config(self) -> dict:
        """Returns what `from_config` needs."""
        return {
            "network": keras.saving.serialize_keras_object(self.network),
            "actor_critic": self.actor_critic,
            "greedy": self.greedy,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> "AsynchronousAgent":
        """Makes an agent of the same shape, with new weights."""
        config = copy.deepcopy(config)  # Keras empties what it deserializes
        network = keras.saving.deserialize_keras_object(config.pop("network"), custom_objects)
        return cls(network, **config)

    @property
    def _samples(self) -> bool:
        return self.actor_critic and not self.greedy

    def _compile_outputs(self, network: keras.Model) -> Callable:
        return CompiledFunction(lambda inputs: self._outputs(network, inputs))

    def _outputs(self, network, inputs: dict):
        """Returns values or logits [B, A], state values [B], and with an LSTM the memory after, [B, U] twice."""
        inputs = [inputs[name] for name in ("state", "hidden", "cell") if name in inputs]
        outputs = network(inputs if len(inputs) > 1 else inputs[0], training=False)
        if not self.actor_critic:
            return outputs, tf.reduce_max(outputs, axis=1)  # [B, A], [B]
        logits, value, *memory = outputs
        return logits, as_row("value", value), *memory

    def _no_memory(self, states) -> dict:
        zeros = tf.zeros((tf.shape(states)[0], self._lstm_units))  # [B, U]
        return {"hidden": zeros, "cell": zeros} if self._lstm_units else {}

    def _td_errors(self, batch: dict):
        states = batch["state"]
        values, value, *memory = self._outputs(self.network, {"state": states, **self._no_memory(states)})
        memory = dict(zip(("hidden", "cell"), memory, strict=False))
        _, next_value, *_ = self._outputs(self.network, {"state": batch["next_state"], **memory})  # [B]
        predicted = value if self.actor_critic else selected_values(values, batch["action"])  # [B]
        reward, discount = (as_row(name, batch[name], next_value.dtype) for name in ("reward", "discount"))  # [B]
        return td_error(reward + discount * next_value, predicted)  # [B]


def _check_actor_critic(network) -> None:
    if not isinstance(network, keras.Model) or not getattr(network, "outputs", None):
        raise TypeError(f"`network` must be a built functional Keras model. Received: network={network!r}")
    counts = len(network.inputs), len(network.outputs)
    if counts not in ((1, 2), (3, 4)):
        raise ValueError(
            "The network of an actor-critic returns logits and a value; with an LSTM, its memory goes in and out too. "
            f"Received: {counts[0]} inputs and {counts[1]} outputs"
        )
