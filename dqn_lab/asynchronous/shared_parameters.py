"""What the workers of an asynchronous run share: parameters, optimizer statistics and the count of steps."""

import ctypes
from multiprocessing.context import BaseContext

import numpy as np

from dqn_lab.arguments import require_integer

_ARRAYS = ("parameters", "target_parameters", "statistics")


class SharedParameters:
    """Three arrays of float32 and an exact count of steps, in memory that processes share.

    The memory has no name: the system frees it with the last process that maps it, however that
    ends. It reaches a worker as an argument of the process, `context.Process(args=(shared,))`, and
    can't be pickled otherwise. The arrays are views of the memory, read and written without a lock
    (Hogwild: Recht et al., 2011): a reader may see a part of somebody's update, never a broken number.

    Args:
        size: numbers in each array, P.
        context: where memory and lock come from, `multiprocessing.get_context("spawn")`.

    Attributes:
        parameters: theta, [P] float32.
        target_parameters: theta^-, [P] float32.
        statistics: of a shared optimizer, [P] float32.

    Raises:
        TypeError: `size` is not an integer.
        ValueError: `size` is below 1.
    """

    def __init__(self, size: int, context: BaseContext):
        size = require_integer("size", size, least=1)
        self._memory = {name: context.RawArray(ctypes.c_float, size) for name in _ARRAYS}  # zeros
        self._steps = context.Value("q", 0)
        self._map()

    def _map(self):
        for name, memory in self._memory.items():
            setattr(self, name, np.frombuffer(memory, np.float32))  # [P]

    def __getstate__(self):
        # Without the views, which would be sent to each worker as copies of what it maps anyway.
        return {"_memory": self._memory, "_steps": self._steps}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._map()

    @property
    def steps(self) -> int:
        """Steps of all workers together. Doesn't wait, not even for a worker that died with the lock in its hands."""
        return self._steps.get_obj().value

    def add_steps(self, n: int) -> int:
        """Adds steps that a worker made; no two calls are told the same range.

        Args:
            n: steps, 0 or more.

        Returns:
            The count before: the caller's steps are those from it to it + n.

        Raises:
            TypeError: `n` is not an integer.
            ValueError: `n` is below 0.
        """
        n = require_integer("n", n, least=0)
        with self._steps.get_lock():
            before = self.steps
            self._steps.get_obj().value = before + n
        return before

    def get_state(self) -> dict:
        """Returns copies. While workers learn, parts of their updates may be in them."""
        return {**{name: getattr(self, name).copy() for name in _ARRAYS}, "steps": self.steps}

    def set_state(self, state: dict) -> None:
        """Takes over what `get_state` returned, before workers begin.

        Raises:
            ValueError: an array is of another shape or not finite, or statistics are below 0; nothing is changed then.
            TypeError: the count of steps is not an integer.
        """
        given = {name: np.asarray(state[name]) for name in _ARRAYS}
        for name, array in given.items():
            _check(name, array, size=self.parameters.size)
        if given["statistics"].min() < 0:
            raise ValueError(f"`statistics` must not be below 0. Received: {given['statistics'].min()}")
        steps = require_integer("steps", state["steps"], least=0)
        for name, array in given.items():
            getattr(self, name)[:] = array
        self._steps.get_obj().value = steps


def _check(name, array, *, size):
    if array.shape != (size,):
        raise ValueError(f"`{name}` must have shape ({size},). Received: {name}.shape={array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"`{name}` must be finite. Received: {np.sum(~np.isfinite(array))} numbers that are not")
