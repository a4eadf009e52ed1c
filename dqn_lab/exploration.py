"""Exploration: how actions are drawn from action values."""

import numpy as np

from dqn_lab.arguments import require_fraction, require_integer


def epsilon_greedy(values: np.ndarray, epsilon: float, generator: np.random.Generator) -> np.ndarray:
    """Returns the action of largest value in each row, or a random one with odds `epsilon`.

    Of equal values the first is taken. The generator gives the same count of draws whatever
    `epsilon` is, so a changed schedule changes no later draw.

    Args:
        values: action values, [B, A].
        epsilon: odds of a random draw, from 0 to 1. A random draw may give the greedy action too.
        generator: where the randomness comes from; it moves.

    Returns:
        Actions, [B] int64.

    Raises:
        ValueError: `values` is not [B, A], or `epsilon` is no probability.
        TypeError: an argument has another type; `generator` is a `numpy.random.Generator`.
    """
    values = np.asarray(values)  # [B, A]
    if values.ndim != 2 or values.shape[1] == 0:
        raise ValueError(f"`values` must be action values of shape [B, A]. Received: values.shape={values.shape}")
    explores, drawn = draw_exploration(*values.shape, epsilon, generator)  # [B], [B]
    return np.where(explores, drawn, np.argmax(values, axis=1))  # [B]


def draw_exploration(
    num_envs: int, num_actions: int, epsilon: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draws which rows explore, and the action each would take: a uniform, then an integer a row.

    Args:
        num_envs: number of rows B.
        num_actions: number of actions A.
        epsilon: odds of a random draw, from 0 to 1: never at 0.0, always at 1.0.
        generator: where the randomness comes from; it moves.

    Returns:
        explores: True where the action is drawn at random, [B] bool.
        action: the random action of every row, [B] int64.

    Raises:
        ValueError: `epsilon` is no probability, or a count is below 1.
        TypeError: an argument has another type; `generator` is a `numpy.random.Generator`.
    """
    epsilon = require_fraction("epsilon", epsilon)
    _check_generator(generator)
    explores = generator.random(num_envs) < epsilon  # [B]
    return explores, uniform_actions(num_envs, num_actions, generator)  # [B], [B]


def perturbed_logits(logits: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Returns a policy's logits plus noise -log(-log u), whose largest is an action drawn by softmax(logits).

    The Gumbel-max trick: Maddison, Tarlow and Minka (2014), section 2.

    Args:
        logits: of any shape, the actions last.
        generator: where the randomness comes from; it moves.
    """
    return logits + generator.gumbel(size=logits.shape)


def uniform_actions(num_envs: int, num_actions: int, generator: np.random.Generator) -> np.ndarray:
    """Returns one uniformly random action per row.

    Args:
        num_envs: number of rows B.
        num_actions: number of actions A.
        generator: where the randomness comes from; it moves.

    Returns:
        Actions, [B] int64.

    Raises:
        ValueError: a count is below 1.
        TypeError: an argument has another type; `generator` is a `numpy.random.Generator`.
    """
    _check_generator(generator)
    num_envs = require_integer("num_envs", num_envs, least=1)
    num_actions = require_integer("num_actions", num_actions, least=1)
    return generator.integers(num_actions, size=num_envs, dtype=np.int64)  # [B]


def _check_generator(generator: np.random.Generator) -> None:
    if not isinstance(generator, np.random.Generator):
        raise TypeError(
            "`generator` must be a numpy.random.Generator, so that its state can be saved. "
            f"Received: generator={generator!r}"
        )
