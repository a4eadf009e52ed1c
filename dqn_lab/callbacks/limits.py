"""Ends a run at its totals, or when it was asked to stop."""

from __future__ import annotations

import math
from collections.abc import Callable

import keras


class Limits(keras.callbacks.Callback):
    """Stops the fit after the update at which the first total of the run is reached.

    Args:
        total_updates: updates of the run, from its beginning.
        total_minutes: minutes of the run, from its beginning.
        minutes: minutes that the run has taken so far.
        stop_requested: whether the run was asked to stop, by Ctrl-C say.

    Raises:
        ValueError: a total is not above 0.
    """

    def __init__(
        self,
        *,
        total_updates: float = math.inf,
        total_minutes: float = math.inf,
        minutes: Callable[[], float],
        stop_requested: Callable[[], bool] = lambda: False,
    ):
        super().__init__()
        for name, total in (("total_updates", total_updates), ("total_minutes", total_minutes)):
            if not total > 0:
                raise ValueError(f"`{name}` must be above 0. Received: {name}={total}")
        self.total_updates = total_updates
        self.total_minutes = total_minutes
        self.interrupted = False
        self._minutes = minutes
        self._stop_requested = stop_requested
        self._updates = 0  # counted here: the agent's own count is a variable on the device

    def on_train_begin(self, logs=None):
        self._updates = self.model.updates

    def on_train_batch_end(self, batch, logs=None):
        self._updates += 1
        self._stop_if_due()

    def on_epoch_end(self, epoch, logs=None):
        self._stop_if_due()  # what came during the evaluation needs no further update

    def _stop_if_due(self) -> None:
        self.interrupted = self._stop_requested()
        if self.interrupted or self.fraction() >= 1.0:
            self.model.stop_training = True

    def fraction(self) -> float:
        """How much of the run is done, 0 to 1, by the total that is nearest; 0 without totals."""
        done = (self._updates / self.total_updates, self._minutes() / self.total_minutes)
        return min(1.0, max(done))


def updates_for_steps(total_steps: float, replay_min_steps: int, train_period_steps: int) -> float:
    """The update at which a run has made so many steps, at least 1.

    Update k is due at `replay_min_steps + k * train_period_steps` steps. A total of steps is
    counted in updates because steps made beside the update would end the run now here, now there.
    """
    if math.isinf(total_steps):
        return math.inf
    return max(1, math.ceil((total_steps - replay_min_steps) / train_period_steps))
