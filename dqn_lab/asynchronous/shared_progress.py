"""What the workers of an asynchronous run tell of their progress, and when they are to meet, in shared memory."""

import ctypes
from dataclasses import dataclass
from multiprocessing.context import BaseContext

import numpy as np

from dqn_lab.asynchronous.shared_parameters import SharedParameters

COUNTERS = (
    "updates",
    "steps",
    "frames",
    "episodes",
    "episode_return_sum",
    "episode_length_sum",
    "learnt_steps",  # whose losses and values are in the two sums below
    "loss_sum",
    "value_sum",
    "epsilon",  # now
    "acting",  # seconds
    "environment",  # seconds
    "update",  # seconds
)


class SharedProgress:
    """Each worker's counters, the step count at which all meet, and how often the target network was copied.

    A worker writes its own row and no other, so that nothing is lost without a lock. The memory has no name; see
    `SharedParameters`.

    Args:
        num_workers: rows.
        context: where the memory comes from.

    Attributes:
        counters: [num_workers, len(COUNTERS)] float64, by the names and in the order of COUNTERS.
    """

    def __init__(self, num_workers: int, context: BaseContext):
        self._memory = context.RawArray(ctypes.c_double, num_workers * len(COUNTERS))  # zeros
        self._due_steps = context.RawValue(ctypes.c_int64, 0)
        self._target_copies = context.RawValue(ctypes.c_int64, 0)
        self._map()

    def _map(self) -> None:
        self.counters = np.frombuffer(self._memory, np.float64).reshape(-1, len(COUNTERS))

    def __getstate__(self) -> dict:
        return {name: value for name, value in vars(self).items() if name != "counters"}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._map()

    @property
    def due_steps(self) -> int:
        """Workers meet before their next segment once so many steps have been made; 0 is now."""
        return self._due_steps.value

    @due_steps.setter
    def due_steps(self, steps: int) -> None:
        self._due_steps.value = steps

    @property
    def target_copies(self) -> int:
        """How many target periods had begun at the last copy: a worker that knows another number loads it anew."""
        return self._target_copies.value

    @target_copies.setter
    def target_copies(self, copies: int) -> None:
        self._target_copies.value = copies

    def totals(self) -> dict[str, float]:
        """The counters of all workers together; epsilon is their mean."""
        sums = dict(zip(COUNTERS, self.counters.sum(axis=0).tolist(), strict=True))
        return sums | {"epsilon": float(self.counters[:, COUNTERS.index("epsilon")].mean())}


@dataclass(frozen=True)
class Shared:
    """What all workers share.

    Args:
        parameters: theta, theta^-, statistics and the count of steps.
        progress: counters and the next rendezvous.
    """

    parameters: SharedParameters
    progress: SharedProgress

    @classmethod
    def beginning(
        cls, initial: np.ndarray, num_workers: int, context: BaseContext, statistics: float = 0.0
    ) -> "Shared":
        """What so many workers share before the first step: theta and theta^- are `initial`, [P]."""
        shared = cls(SharedParameters(initial.size, context), SharedProgress(num_workers, context))
        shared.parameters.parameters[:] = shared.parameters.target_parameters[:] = initial
        shared.parameters.statistics[:] = statistics
        return shared
