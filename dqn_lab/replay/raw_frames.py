"""Observations kept as they are, in one array."""

import numpy as np

from dqn_lab.replay.lazy_memory import lazy_zeros
from dqn_lab.replay.saved_arrays import refuse_other_arrays


class RawFrames:
    """The newest `capacity` observations; the one with serial number `index` lies at `index % capacity`.

    Args:
        capacity: observations, all lanes together.
        num_envs: number of lanes.
        shape: shape of one observation.
        dtype: dtype of the observations.
    """

    def __init__(self, capacity: int, num_envs: int, shape: tuple[int, ...], dtype) -> None:
        self.array = lazy_zeros((capacity, *shape), dtype)
        self.shape, self.dtype, self.nbytes = self.array.shape[1:], self.array.dtype, self.array.nbytes

    def append(self, index: np.ndarray, frames: np.ndarray) -> None:
        """Writes one observation per index, each lane's next. [N], [N, *shape]"""
        self.array[index % len(self.array)] = frames

    def read(self, index: np.ndarray) -> np.ndarray:
        """Returns copies of stored observations, in any order and as often as asked for. [...] -> [..., *shape]"""
        return self.array[index % len(self.array)]

    def get_state(self) -> np.ndarray:
        """Returns the array itself, not a copy."""
        return self.array

    def set_state(self, state: np.ndarray) -> None:
        """Copies the array of `get_state` in.

        Raises:
            ValueError: it is none, or has another shape or dtype.
        """
        refuse_other_arrays({"frames": self.array}, {"frames": state})
        self.array[...] = state
