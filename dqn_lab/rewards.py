"""The transforms of a raw reward into the one the learner sees."""

import numpy as np

_TRANSFORMS = {
    "sign": np.sign,
    "clip": lambda reward: np.clip(reward, -1.0, 1.0),
    "none": lambda reward: reward,
}

REWARD_TRANSFORMS = tuple(_TRANSFORMS)


def transform_reward(reward: np.ndarray, name: str) -> np.ndarray:
    """Returns the learner's reward for raw rewards; scores shown to people stay raw.

    `sign` and `clip` agree on whole numbers and differ on fractions: 0.5 becomes 1 or stays 0.5.

    Args:
        reward: raw rewards, any shape and number type; for Atari the sum over a step's frames.
        name: "sign" (-1, 0 or 1), "clip" (to [-1, 1]) or "none" (unchanged).

    Returns:
        A new float32 array of the same shape.

    Raises:
        ValueError: if `name` is none of the three.

    Source: Mnih et al. (2015), Methods, clip the rewards to [-1, 1].
    """
    if name not in _TRANSFORMS:
        known = ", ".join(REWARD_TRANSFORMS)
        raise ValueError(f"reward_transform must be one of {known}. Received: name={name!r}")
    return np.array(_TRANSFORMS[name](np.asarray(reward)), dtype=np.float32)  # [B]
