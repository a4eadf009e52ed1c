"""A policy, as a sequence calls it: features to action values."""

from collections.abc import Callable

import numpy as np

Policy = Callable[[np.ndarray], np.ndarray]


def require_policy(policy: Policy | None) -> Policy | None:
    """Returns a policy, or None.

    Raises:
        TypeError: it cannot be called.
    """
    if policy is not None and not callable(policy):
        raise TypeError(
            "`policy` must be a callable, features [N, ...] -> action values [N, A], or None. "
            f"Received: policy={policy!r}"
        )
    return policy


def action_values(policy: Policy, features: np.ndarray, num_actions: int) -> np.ndarray:
    """Returns a policy's action values. [N, ...] -> [N, A]

    Raises:
        ValueError: they have another shape.
        FloatingPointError: one of them is NaN.
    """
    values = np.asarray(policy(features))
    if values.shape != (len(features), num_actions):
        raise ValueError(
            f"A policy must return action values [N, A] = ({len(features)}, {num_actions}). "
            f"Received: shape={values.shape}"
        )
    if np.isnan(values).any():
        raise FloatingPointError("A policy must return action values that are numbers. Received: NaN")
    return values
