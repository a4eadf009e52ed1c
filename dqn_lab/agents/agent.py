"""The agent: a Keras model that learns from a sequence's minibatches, whatever its update rule."""

import gc
import time
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from dqn_lab.agents.checks import as_states, check_clip, check_fits, check_logs, check_network
from dqn_lab.agents.compiled_function import CompiledFunction
from dqn_lab.agents.gradient_step import UNFINITE, GradientStep
from dqn_lab.agents.saved_model import SavedModel
from dqn_lab.arguments import require_fraction, require_integer
from dqn_lab.exploration import epsilon_greedy
from dqn_lab.models.networks import network_precision
from dqn_lab.notebook import in_notebook


class Agent(SavedModel):
    """Online and target network with the loop that trains them; a rule adds `example_losses`.

    `train_step` may be overridden, as in any Keras model: counting of updates, the copies to the target network and
    the hand-over of minibatches lie outside it. `fit` takes a sequence; calling the agent gives action values.

    Args:
        network: states [B, ...] -> action values [B, A], a built functional or Sequential Keras model. Its weights
            are the agent's, and the regularizers of its weights are part of the loss.
        target_period_updates: updates between two copies of the online weights to the target network; None to
            bootstrap from the online network.
        gradient_clip: largest norm of the gradient over all weights; None to leave it.

    Attributes:
        network: the online network, a plain Keras model.
        target_network: its own variables, or None.
        sequence: the sequence being fitted, or fitted last.
        fit_callbacks: the callbacks given to that fit, which Keras does not show to one another.
        before_update: called with each minibatch of a fit before its update; a callback may set it, for that fit. None.

    Raises:
        TypeError, ValueError: an argument has the wrong type or range.
    """

    def __init__(
        self, network: keras.Model, *, target_period_updates: int | None, gradient_clip: float | None = None, **kwargs
    ) -> None:
        check_network(network)
        if target_period_updates is not None:
            target_period_updates = require_integer("target_period_updates", target_period_updates, least=1)
        check_clip(gradient_clip)
        kwargs.setdefault("dtype", network_precision(network))  # Keras chooses loss scaling by it
        super().__init__(**kwargs)
        self.target_period_updates = target_period_updates
        self.gradient_clip = gradient_clip
        self.network = network
        self.target_network = None
        if target_period_updates is not None:
            self.target_network = keras.models.clone_model(network)
            self.target_network.set_weights(network.get_weights())
            self.target_network.trainable = False
        self.update_count = self.add_weight(
            shape=(), dtype="int64", initializer="zeros", trainable=False, name="update_count"
        )
        self.unfinite = self.add_weight(shape=(), dtype="int64", initializer="zeros", trainable=False, name="unfinite")
        self.loss_mean = keras.metrics.Mean(name="loss")
        self.q_mean = keras.metrics.Mean(name="q_mean")
        self.built = True
        self.sequence = None
        self.fit_callbacks: tuple = ()
        self.before_update: Callable[[dict], None] | None = None
        self._feed = None
        self._gradient_step: GradientStep | None = None
        self._compiled_q_values = CompiledFunction(self._network_values)
        self._compiled_td_errors = CompiledFunction(self._td_errors)
        self._compiled_gradients = CompiledFunction(self._unscaled_gradients)

    # What a rule says.

    def example_losses(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Returns the loss of each row of a minibatch, unweighted. [B]"""
        raise NotImplementedError(f"{type(self).__name__} must define example_losses(batch).")

    def temporal_differences(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """Returns target minus prediction of each row of a minibatch. [B]"""
        raise NotImplementedError(f"{type(self).__name__} must define temporal_differences(batch).")

    # Values.

    def call(self, states, training=None):
        """Returns the online network's action values. [B, ...] -> [B, A]"""
        return self.network(states, training=training)  # [B, A]

    def q_values(self, states) -> tf.Tensor:
        """Returns action values by a function compiled once for each shape. [B, ...] -> [B, A]"""
        return self._compiled_q_values(tf.convert_to_tensor(states))  # [B, A]

    def act_values(self, states: np.ndarray) -> np.ndarray:
        """Returns action values as an array, for a sequence to act by. [N, ...] -> [N, A]"""
        return self.q_values(states).numpy()  # [N, A]

    def act(self, states: np.ndarray, epsilon: float = 0.0, generator: np.random.Generator | None = None) -> np.ndarray:
        """Returns epsilon-greedy actions for states. [B, ...] -> [B] int64

        Args:
            states: as the network takes them.
            epsilon: odds of a random action.
            generator: where the randomness comes from; needed where `epsilon` is above 0.

        Raises:
            ValueError: `epsilon` is no probability, or above 0 without a generator; or the states have another shape.
            TypeError: `generator` is no generator.
        """
        if generator is None and require_fraction("epsilon", epsilon) > 0:
            raise ValueError(f"Random actions need a `generator`. Received: epsilon={epsilon}, generator=None")
        states = as_states(self.network, states)  # [B, ...]
        if not len(states):
            return np.zeros(0, np.int64)  # [0]
        generator = np.random.default_rng(0) if generator is None else generator  # nothing depends on it then
        return epsilon_greedy(self.act_values(states), epsilon, generator)  # [B]

    def state_values(self, states) -> tf.Tensor:
        """Returns the largest action value of each state. [B, ...] -> [B]"""
        return tf.reduce_max(self.q_values(states), axis=-1)  # [B]

    def lead(self, twin, network: keras.Model | None = None) -> None:
        """Makes an evaluation twin act by this agent's values, or by those of another network of the same kind."""
        twin.policy = self.q_values if network is None else network.predict_on_batch

    def td_errors(self, batch: dict) -> tf.Tensor:
        """Returns target minus prediction of each row of a minibatch's dict. -> [B]"""
        return self._compiled_td_errors(_to_device(batch))  # [B]

    @property
    def updates(self) -> int:
        """Gradient steps made so far."""
        return int(self.update_count.numpy())

    @property
    def metrics(self) -> list:
        """Loss and value means of the epoch, and what a user's subclass adds."""
        own = [self.loss_mean, self.q_mean]
        return own + [each for each in self._metrics if all(each is not known for known in own)]

    # Learning.

    def train_step(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Makes one gradient step from the mean of the rows' weighted losses, if it and its gradient are finite."""
        loss, gradients, scale = self._loss_and_gradients(batch)
        norm = tf.linalg.global_norm(gradients) / scale  # []
        if self.gradient_clip is not None:
            gradients = _scaled(gradients, tf.minimum(1.0, self.gradient_clip / norm))
        self._gradient_step(gradients, loss, norm)
        self.loss_mean.update_state(loss)
        return self.get_metrics_result()

    def update(self, batch: dict) -> dict[str, tf.Tensor]:
        """Makes one update: `train_step`, its count, and the copy to the target network where it is due.

        Compiled once. The results stay on the device: nothing waits for it here.

        Args:
            batch: of a sequence; arrays or tensors.

        Returns:
            What `train_step` returned.
        """
        self.make_train_function()
        return self._compiled_update(_to_device(batch))

    def gradients(self, batch: dict) -> list[np.ndarray]:
        """Returns the gradient of the loss over a minibatch, before any clipping, and changes nothing by it.

        Compiled at its first call, apart from the update.

        Args:
            batch: of a sequence; arrays or tensors.

        Returns:
            One array for each of the network's trainable variables; 0 where the loss doesn't depend on it.
        """
        means = [variable for metric in self.metrics for variable in metric.variables]
        before = [(variable, variable.numpy()) for variable in (*self.non_trainable_variables, *means)]
        try:
            return [each.numpy() for each in self._compiled_gradients(_to_device(batch))]
        finally:
            for variable, values in before:  # figures, and whatever a network in training counts
                variable.assign(values)

    def check_finite(self) -> None:
        """Raises FloatingPointError if a loss or gradient was not finite, since when no update has been made."""
        unfinite = int(self.unfinite.numpy())
        if unfinite:
            raise FloatingPointError(
                f"The {UNFINITE[unfinite]} of update {self.updates + 1} is not finite; the update was not made."
                f"{self._due(self.updates + 1)} A lower learning rate, a gradient clip or clipped rewards may help."
            )

    def make_train_function(self, force: bool = False) -> Callable:
        """Compiles the update, and puts it in turn with the sequence's feed."""
        if self.train_function is None or force:
            self._compiled_update = self._counted_update
            if not self.run_eagerly:
                self._compiled_update = CompiledFunction(self._counted_update, jit_compile=self.jit_compile)
            self.train_function = self._fed_update
        return self.train_function

    def compile(self, optimizer="adam", *, jit_compile="auto", run_eagerly: bool = False, **unsupported) -> None:
        """Sets the optimizer; the loss belongs to the agent.

        Args:
            optimizer: a Keras optimizer, or its name.
            jit_compile: XLA for the update: True, False, or "auto" for Keras's own choice (never on CPU).
            run_eagerly: as in Keras.

        Raises:
            ValueError: no or an unknown optimizer, or anything else that Keras's `compile` takes.
        """
        if optimizer is None:
            raise ValueError("An agent needs an optimizer. Received: optimizer=None")
        if unsupported.get("steps_per_execution", 1) not in (1, None):
            raise ValueError(
                "`steps_per_execution` must be 1: updates and environment steps take turns one by one. "
                f"Received: steps_per_execution={unsupported['steps_per_execution']}"
            )
        unsupported.pop("steps_per_execution", None)
        for name in [name for name, value in unsupported.items() if value is None]:
            del unsupported[name]
        if unsupported:
            raise ValueError(
                "An agent's `compile` takes optimizer, jit_compile and run_eagerly; the loss is the agent's own. "
                f"Received: {', '.join(unsupported)}"
            )
        super().compile(optimizer=optimizer, jit_compile=jit_compile, run_eagerly=run_eagerly)
        self._jit_compile_asked, self._logs = jit_compile, {}
        if not self.optimizer.built:  # a second `build` would give a loss scaling new variables
            self.optimizer.build(self.network.trainable_variables)
        self._gradient_step = GradientStep(
            self.optimizer,
            self.network.trainable_variables,
            self.unfinite,
            compiles=jit_compile == "auto" and not self.jit_compile and not run_eagerly,
        )

    def fit(
        self,
        sequence,
        *,
        epochs: int = 1,
        initial_epoch: int = 0,
        epoch_updates: int | None = None,
        callbacks=None,
        verbose="auto",
        log_period_updates: int = 100,
        **unsupported,
    ):
        """Trains on a sequence, one Keras epoch for every `updates_per_epoch` updates.

        What is raised while a minibatch is made arrives here as the very same object.

        Args:
            sequence: a dqn_lab sequence, whose actions are taken by this agent's values.
            epochs, initial_epoch, callbacks, verbose: as in Keras; but "auto" is one line an epoch in a notebook.
            epoch_updates: updates in each epoch of this fit, such as the rest of one that was broken off; None for as
                many as the sequence says.
            log_period_updates: how often the figures in the callbacks' `logs` are read from the device, and a loss
                that is not finite is noticed. An epoch's last update always is.

        Returns:
            Keras's History.

        Raises:
            TypeError: `sequence` is no dqn_lab sequence.
            ValueError: an argument of Keras's `fit` that has no place here; a network that does not fit the sequence.
            RuntimeError: this agent or this sequence is in a fit already.
            FloatingPointError: a loss or gradient was not finite; neither that update nor a later one was made.
        """
        if not hasattr(sequence, "attach"):
            raise TypeError(f"An agent is fitted to a dqn_lab sequence. Received: {type(sequence).__name__}")
        if unsupported.pop("shuffle", False):
            raise ValueError("Minibatches come in order. Received: shuffle=True")
        unsupported = {key: value for key, value in unsupported.items() if value is not None}
        if unsupported:
            raise ValueError(
                "An agent's `fit` takes sequence, epochs, initial_epoch, callbacks and verbose; the sequence "
                f"decides about the rest. Received: {', '.join(unsupported)}"
            )
        if not self.compiled:
            raise ValueError("An agent is compiled before it is fitted: `agent.compile(optimizer)`.")
        check_fits(self.network, sequence)
        epochs = require_integer("epochs", epochs, least=0)
        initial_epoch = require_integer("initial_epoch", initial_epoch, least=0)
        if self._feed is not None:
            raise RuntimeError("This agent is being fitted already.")
        self._log_period_updates = require_integer("log_period_updates", log_period_updates, least=1)
        self._updates_begun = self.updates
        self.unfinite.assign(0)
        if self.sequence is not None and sequence is not self.sequence:
            self._logs = {}  # another one's
        # Nothing that may raise lies between this and `try`.
        feed = sequence.attach(self.act_values, _to_device, epoch_updates)
        self._feed, self.sequence, self.fit_callbacks = feed, sequence, tuple(keras.tree.flatten(callbacks or ()))
        try:
            history = super().fit(
                feed.dataset(),
                epochs=epochs,
                initial_epoch=initial_epoch,
                callbacks=callbacks,
                verbose=2 if verbose == "auto" and in_notebook() else verbose,
                shuffle=False,
            )
        except BaseException as raised:
            self._end(feed)
            if not feed.failed:
                if feed.error not in (None, raised):
                    raised.add_note(f"The environments raised too, as the fit ended: {feed.error!r}")
                raise
        else:
            self._end(feed)
        if feed.error is not None:
            raise feed.error
        return history

    def finish_epoch(self, sequence, epoch: int, callbacks=None) -> None:
        """Carries out the end of an epoch whose updates have all been made, as `fit` would have.

        Afterwards `stop_training` tells whether a callback asked for the end.

        Args:
            sequence: of that epoch.
            epoch: its number, from 0.
            callbacks: as in `fit`.
        """
        self.sequence, self.fit_callbacks = sequence, tuple(keras.tree.flatten(callbacks or ()))
        listed = keras.callbacks.CallbackList(callbacks, model=self, epochs=epoch + 1, steps=len(sequence))
        sequence.epoch_complete, self.stop_training, self._goes_on = True, False, False
        listed.on_train_begin()
        listed.on_epoch_begin(epoch)
        listed.on_epoch_end(epoch, dict(self._logs))  # an epoch's last update always reads them
        listed.on_train_end(dict(self._logs))

    def _due(self, update: int) -> str:
        if self.sequence is None:
            return ""
        return f" It was due at step {self.sequence.replay_min_steps + update * self.sequence.train_period_steps:,}."

    def _network_values(self, states):
        return self.network(states, training=False)  # [B, A]

    def _td_errors(self, batch):
        return self.temporal_differences(batch)  # [B]

    def _fed_update(self, iterator) -> dict[str, float]:
        """What Keras calls for every update, with an iterator that only counts them. Its floats may be a little old."""
        feed = self._feed
        if feed is None:
            raise RuntimeError("An agent learns from a sequence, by `agent.fit(sequence)`.")
        batch = feed.next_batch()
        if self.before_update is not None:
            self.before_update(batch)
        begin = time.perf_counter()
        logs = self._compiled_update(batch)
        self._updates_begun += 1
        if not self._logs or not feed.left or self._updates_begun % self._log_period_updates == 0:
            self.check_finite()
            self._logs = {name: float(value) for name, value in logs.items()}
        self.sequence.seconds["update"] += time.perf_counter() - begin
        feed.end_update()
        self._in_epoch = feed.left > 0
        return self._logs

    def _loss_and_gradients(self, batch) -> tuple:
        """Returns the mean loss, its gradients, a scale that the optimizer undoes in them, and takes no step."""
        with tf.GradientTape() as tape:
            losses = tf.cast(self.example_losses(batch), tf.float32)  # [B]
            loss = tf.reduce_mean(batch["weight"] * losses) + self._regularization()  # []
            scaled = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, self.network.trainable_variables)
        return loss, gradients, self.optimizer.scale_loss(tf.ones_like(loss))  # scale 1, but for a loss scaling

    def _unscaled_gradients(self, batch) -> list:
        _, gradients, scale = self._loss_and_gradients(batch)
        pairs = zip(gradients, self.network.trainable_variables, strict=True)
        return [
            tf.zeros(w.shape) if g is None else tf.cast(tf.convert_to_tensor(g), tf.float32) / scale for g, w in pairs
        ]

    def _counted_update(self, batch):
        logs = self.train_step(batch)
        check_logs(logs)
        self.update_count.assign_add(tf.cast(tf.equal(self.unfinite.value, 0), tf.int64))
        if self.target_network is not None:
            due = tf.equal(self.update_count.value % self.target_period_updates, 0)  # []
            tf.cond(due, self._copy_to_target, lambda: None)
        return logs

    def _copy_to_target(self) -> None:
        for target, online in zip(self.target_network.variables, self.network.variables, strict=True):
            target.assign(online)

    def _regularization(self):
        weights = [weight for weight in self.network.trainable_variables if weight.regularizer is not None]
        return sum((tf.cast(weight.regularizer(weight), tf.float32) for weight in weights), start=0.0)  # []

    def _end(self, feed) -> None:
        self._feed = self.before_update = None
        feed.close()
        if feed.left:
            gc.collect()  # frees what Keras made for an epoch that was broken off, which only a collection can


def _to_device(batch: dict[str, np.ndarray]) -> dict[str, tf.Tensor]:
    return {name: tf.convert_to_tensor(values) for name, values in batch.items()}


def _scaled(gradients: list, factor) -> list:
    return [g if g is None else tf.math.scalar_mul(tf.cast(factor, g.dtype), g) for g in gradients]
