"""What `--check` prints: one look at everything that an update uses, and no update."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf


def inspect_run(sequence, agent, say: Callable[[str], None]) -> None:
    """Prints network, one minibatch, targets, predictions, loss, weight and gradient norms.

    Args:
        sequence: filled here if it isn't.
        agent: with `network`, `example_losses`, `td_errors` and `q_values`.
        say: prints one line.

    Raises:
        FloatingPointError: the loss or a gradient is not finite.
    """
    agent.network.summary(print_fn=lambda text, **_: say(text.rstrip()))
    batch = sequence[0]
    say("minibatch:")
    for name, values in batch.items():
        say(f"  {name}: {values.dtype} {values.shape}, {_spread(values)}")
    values = np.asarray(agent.q_values(batch["state"]), np.float64)  # [B, A]
    predictions = np.take_along_axis(values, batch["action"][:, None], axis=1)[:, 0]  # [B]
    targets = predictions + np.asarray(agent.td_errors(_learnt_from(batch)), np.float64)  # [B]
    say(f"predictions: {_spread(predictions)}")
    say(f"targets: {_spread(targets)}")
    loss, gradients = _loss_and_gradients(agent, batch)
    say(f"loss: {loss:.6g}")
    say("norms of weights and gradients:")
    for weight, gradient in zip(agent.network.trainable_variables, gradients, strict=True):
        say(f"  {weight.path}: {_norm(keras.ops.convert_to_numpy(weight)):.4g}, {_norm(gradient):.4g}")
    norm = _norm(np.array([_norm(gradient) for gradient in gradients]))
    say(f"gradient norm: {norm:.6g}")
    if not (np.isfinite(loss) and np.isfinite(norm)):
        raise FloatingPointError(f"loss and gradient must be finite. Received: loss={loss}, gradient norm={norm}")


def _learnt_from(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {key: value for key, value in batch.items() if key not in ("weight", "index")}


def _loss_and_gradients(agent, batch) -> tuple[float, list[np.ndarray]]:
    tensors = {name: tf.convert_to_tensor(values) for name, values in batch.items()}
    weights = agent.network.trainable_variables
    with tf.GradientTape() as tape:
        losses = agent.example_losses(tensors)  # [B]
        loss = tf.reduce_mean(tf.cast(tensors["weight"], losses.dtype) * losses)  # []
    gradients = tape.gradient(loss, weights)
    return float(loss), [np.asarray(tf.convert_to_tensor(one), np.float64) for one in gradients]


def _norm(values: np.ndarray) -> float:
    return float(np.sqrt(np.square(np.asarray(values, np.float64)).sum()))


def _spread(values: np.ndarray) -> str:
    numbers = np.asarray(values, np.float64)
    return f"{numbers.min():.4g} to {numbers.max():.4g}, mean {numbers.mean():.4g}"
