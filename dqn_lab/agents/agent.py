"""The agent: a Keras model that learns from a sequence's minibatches, whatever its update rule."""

import time
from collections.abc import Callable

import keras
import tensorflow as tf

from dqn_lab.arguments import require_integer

_UNFINITE = {1: "loss", 2: "gradient norm"}


class Agent(keras.Model):
    """Online and target network with the loop that trains them; a rule adds `example_losses`.

    `train_step` may be overridden, as in any Keras model: counting of updates, the copies to the target network and
    the hand-over of minibatches lie outside it. `fit` takes a sequence; calling the agent gives action values.

    Args:
        network: states [B, ...] -> action values [B, A], a built Keras model. Its weights are the agent's.
        target_period_updates: updates between two copies of the online weights to the target network; None to
            bootstrap from the online network.
        gradient_clip: largest norm of the gradient over all weights; None to leave it.

    Attributes:
        network: the online network, a plain Keras model.
        target_network: its own variables, or None.
        sequence: the sequence being fitted, or fitted last.

    Raises:
        TypeError, ValueError: an argument has the wrong type or range.
    """

    def __init__(
        self, network: keras.Model, *, target_period_updates: int | None, gradient_clip: float | None = None, **kwargs
    ) -> None:
        _check_network(network)
        kwargs.setdefault("dtype", network.dtype_policy)  # Keras chooses loss scaling by it
        super().__init__(**kwargs)
        if target_period_updates is not None:
            target_period_updates = require_integer("target_period_updates", target_period_updates, least=1)
        if gradient_clip is not None and not gradient_clip > 0:
            raise ValueError(f"`gradient_clip` must be positive or None. Received: gradient_clip={gradient_clip}")
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
        self.unfinite = self.add_weight(shape=(), dtype="int32", initializer="zeros", trainable=False, name="unfinite")
        self.loss_mean = keras.metrics.Mean(name="loss")
        self.q_mean = keras.metrics.Mean(name="q_mean")
        self.built = True
        self.sequence = None
        self._feed = None
        self._compiled_q_values = tf.function(self._network_values, reduce_retracing=True)
        self._compiled_td_errors = tf.function(self._td_errors, reduce_retracing=True)

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
        return self._compiled_q_values(states)  # [B, A]

    def td_errors(self, batch: dict) -> tf.Tensor:
        """Returns target minus prediction of each row of a minibatch's dict. -> [B]"""
        return self._compiled_td_errors({key: tf.convert_to_tensor(value) for key, value in batch.items()})  # [B]

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
        """Makes one gradient step from the mean of the rows' weighted losses, unless it is not finite."""
        weights = self.network.trainable_variables
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(batch["weight"] * self.example_losses(batch))  # []
            scaled = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, weights)
        scale = self.optimizer.scale_loss(tf.ones_like(loss))  # 1, or a loss scaling that the optimizer undoes
        norm = tf.linalg.global_norm(gradients) / scale
        if self.gradient_clip is not None:
            factor = tf.minimum(1.0, self.gradient_clip / norm)
            gradients = [gradient * tf.cast(factor, gradient.dtype) for gradient in gradients]
        self._apply_if_finite(gradients, weights, loss, norm)
        self.loss_mean.update_state(loss)
        return self.get_metrics_result()

    def make_train_function(self, force: bool = False) -> Callable:
        """Compiles the update, and puts it in step with the sequence's feed."""
        if self.train_function is not None and not force:
            return self.train_function
        self.optimizer.build(self.network.trainable_variables)
        update = self._counted_update
        if not self.run_eagerly:
            update = tf.function(update, reduce_retracing=True, jit_compile=self.jit_compile)

        def train_function(iterator):
            feed = self._feed
            feed.before_batch()
            batch = self._next_batch(iterator)
            feed.after_batch()
            begin = time.perf_counter()
            logs = update(batch)
            self._stop_if_unfinite()
            self.sequence.seconds["update"] += time.perf_counter() - begin
            return logs

        self.train_function = train_function
        return train_function

    def compile(self, optimizer="adam", *, jit_compile="auto", run_eagerly: bool = False, **unsupported) -> None:
        """Sets the optimizer; the loss belongs to the agent.

        Args:
            optimizer: a Keras optimizer, or its name.
            jit_compile: XLA for the update: True, False, or "auto" for Keras's own choice (never on CPU).
            run_eagerly: as in Keras.

        Raises:
            ValueError: anything else that Keras's `compile` takes.
        """
        if unsupported.pop("steps_per_execution", 1) != 1:
            raise ValueError(
                "Updates and environment steps take turns one by one, so that `steps_per_execution` must be 1."
            )
        for name in [name for name, value in unsupported.items() if value is None]:
            del unsupported[name]
        if unsupported:
            raise ValueError(
                "An agent's `compile` takes optimizer, jit_compile and run_eagerly; the loss is the agent's own. "
                f"Received: {', '.join(unsupported)}"
            )
        super().compile(optimizer=optimizer, jit_compile=jit_compile, run_eagerly=run_eagerly)

    def fit(self, sequence, *, epochs: int = 1, initial_epoch: int = 0, callbacks=None, verbose="auto", **unsupported):
        """Trains on a sequence, one Keras epoch for every `updates_per_epoch` updates.

        What the generator's thread raises arrives here as the very same object.

        Args:
            sequence: a dqn_lab sequence, whose actions are taken by this agent's values.
            epochs, initial_epoch, callbacks, verbose: as in Keras.

        Returns:
            Keras's History.

        Raises:
            TypeError: `sequence` is no dqn_lab sequence.
            ValueError: an argument of Keras's `fit` that has no place here.
            FloatingPointError: a loss or gradient was not finite; that update was not made.
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
        self._feed, self.sequence = sequence.attach(self._act_values), sequence
        try:
            return super().fit(
                self._feed,
                epochs=epochs,
                initial_epoch=initial_epoch,
                callbacks=callbacks,
                verbose=verbose,
                shuffle=False,  # Keras's default uses Python's global random generator
            )
        finally:
            feed, self._feed = self._feed, None
            feed.close()

    def get_config(self) -> dict:
        """Returns what `from_config` needs."""
        return {
            "network": keras.saving.serialize_keras_object(self.network),
            "target_period_updates": self.target_period_updates,
            "gradient_clip": self.gradient_clip,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> "Agent":
        """Makes an agent of the same shape, with new weights."""
        network = keras.saving.deserialize_keras_object(config.pop("network"), custom_objects)
        return cls(network, **config)

    def get_compile_config(self) -> dict:
        """Returns what `compile` needs, for saving."""
        return {
            "optimizer": keras.saving.serialize_keras_object(self.optimizer),
            "jit_compile": self.jit_compile,
        }

    def compile_from_config(self, config: dict) -> None:
        """Compiles as the saved agent was, with the optimizer's variables ready to be loaded."""
        optimizer = keras.saving.deserialize_keras_object(config["optimizer"])
        self.compile(optimizer, jit_compile=config["jit_compile"])
        self.optimizer.build(self.network.trainable_variables)

    def _network_values(self, states):
        return self.network(states, training=False)  # [B, A]

    def _act_values(self, states):
        return self.q_values(states).numpy()  # [N, A]

    def _td_errors(self, batch):
        return self.temporal_differences(batch)  # [B]

    def _counted_update(self, batch):
        logs = self.train_step(batch)
        self.update_count.assign_add(1)
        if self.target_network is not None:
            due = tf.equal(self.update_count.value % self.target_period_updates, 0)  # []
            tf.cond(due, self._copy_to_target, lambda: None)
        return logs

    def _copy_to_target(self) -> None:
        for target, online in zip(self.target_network.variables, self.network.variables, strict=True):
            target.assign(online)

    def _apply_if_finite(self, gradients, weights, loss, norm) -> None:
        # An optimizer with dynamic loss scaling leaves out, by itself, a step whose scaled gradients overflow.
        overflows = hasattr(self.optimizer, "dynamic_scale")
        finite_norm = tf.constant(True) if overflows else tf.math.is_finite(norm)  # []
        finite_loss = tf.math.is_finite(loss)  # []

        def apply() -> None:
            self.optimizer.apply(gradients, weights)

        def leave() -> None:
            self.unfinite.assign(tf.where(finite_loss, 2, 1))

        tf.cond(finite_loss & finite_norm & tf.equal(self.unfinite.value, 0), apply, leave)

    def _stop_if_unfinite(self) -> None:
        what = int(self.unfinite.numpy())
        if what:
            self.unfinite.assign(0)
            raise FloatingPointError(
                f"The {_UNFINITE[what]} of update {self.updates} is not finite; the update was not made. A lower "
                "learning rate, a gradient clip or clipped rewards may help."
            )

    def _next_batch(self, iterator):
        try:
            return next(iterator)
        except StopIteration:
            raise
        except Exception:
            if self._feed.error is not None:
                raise self._feed.error from None
            raise


def _check_network(network) -> None:
    if not isinstance(network, keras.Model) or not network.built:
        raise TypeError(
            "`network` must be a built Keras model, states [B, ...] -> action values [B, A]. "
            f"Received: network={network!r}"
        )
    shape = network.output_shape
    if not isinstance(shape, tuple) or len(shape) != 2:
        raise ValueError(f"`network` must return action values [B, A]. Received: output_shape={shape}")
