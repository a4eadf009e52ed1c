"""Observations kept as they are, in one array."""

import numpy as np

from dqn_lab.replay.changes import index_between
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
        self.bytes_per_row = self.nbytes / capacity

    def clear(self) -> None:
        """Forgets all observations, and gives their memory back."""
        self.array = lazy_zeros(self.array.shape, self.dtype)

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

    def get_changes(self, first: np.ndarray, written: np.ndarray) -> dict[str, np.ndarray]:
        """Returns copies of the observations of the positions `first` to `written - 1`. [num_envs], [num_envs]"""
        return {"frames": self.read(index_between(first, written))}

    def apply_changes(self, changes: dict[str, np.ndarray], first: np.ndarray, written: np.ndarray) -> None:
        """Takes over what `get_changes` returned for the same positions.

        Raises:
            ValueError: it is not of such a store.
        """
        index = index_between(first, written)  # [K]
        refuse_other_arrays({"frames": np.empty((len(index), *self.shape), self.dtype)}, changes)
        self.append(index, changes["frames"])
