"""Saves the run between two updates now and then, at its end, and the agent at a better evaluation."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path

import keras

from dqn_lab.callbacks.metrics import Metrics
from dqn_lab.checkpoint import check_checkpoint, find_complete, save_agent

_RETRY_MINUTES = 1.0
_logger = logging.getLogger("dqn_lab")


class Checkpoint(keras.callbacks.Callback):
    """Has the run saved, when every callback has done with the last update and the next one has not begun.

    Placed first. At an epoch's end that is before the epoch is judged: whatever happens while it is evaluated, its
    updates are not lost, and whoever continues the run begins with the evaluation.

        update k ... on_train_batch_end | saved here | on_train_batch_begin ... update k + 1
        the epoch's last update ... on_train_batch_end | saved here | on_epoch_end: evaluation, row, points

    A save that fails because of the disk is told and tried again; only the last one's failure ends the run.

    Args:
        checkpoints: with `get_state()`, a state of the run as it is now, and `save(state)`.
        minutes: minutes that the run has taken so far.
        period_updates: updates from one save to the next; None: minutes alone decide. Not steps, as those made beside
            an update would have it saved now here, now there.
        period_minutes: as well, whichever comes first; None: updates alone decide.
    """

    def __init__(
        self,
        checkpoints,
        *,
        minutes: Callable[[], float],
        period_updates: float | None = None,
        period_minutes: float | None = None,
    ):
        super().__init__()
        self._checkpoints = checkpoints
        self._minutes = minutes
        self._period_updates = math.inf if period_updates is None else period_updates
        self._period_minutes = math.inf if period_minutes is None else period_minutes
        self._updates = 0  # counted here: the agent's own count is a variable on the device
        self._due_updates = self._due_minutes = math.inf
        self._at_epoch_end: dict | None = None  # the state before the end of an epoch that isn't over yet

    def on_train_begin(self, logs=None):
        self._updates = self.model.updates
        if math.isinf(self._due_updates) and math.isinf(self._due_minutes):  # not the second part of a fit
            self._wait()

    def on_epoch_begin(self, epoch, logs=None):
        self._checkpoints.epochs = epoch
        self._at_epoch_end = None

    def on_train_batch_begin(self, batch, logs=None):
        if self._is_due():
            self._try(None)

    def on_train_batch_end(self, batch, logs=None):
        self._updates += 1

    def on_epoch_end(self, epoch, logs=None):
        self._at_epoch_end = self._checkpoints.get_state()
        if self.model.sequence.epoch_complete and self._is_due():
            self._try(self._at_epoch_end)

    def on_train_end(self, logs=None):
        if self._at_epoch_end is not None and self.model.sequence.epoch_complete:
            self._checkpoints.epochs += 1
            self._at_epoch_end = None
        # An epoch that was broken off is saved as it was before its last point was drawn: who goes on, goes on with it.
        self._checkpoints.save_if_new(self._at_epoch_end)
        self._wait()

    def rescue(self) -> bool:
        """Saves what is safe after an error ended the fit; tells whether there is any checkpoint of this run.

        Raises:
            OSError: as the disk says.
        """
        return self._checkpoints.save_if_new(self._at_epoch_end)

    def _is_due(self) -> bool:
        return self._updates >= self._due_updates or self._minutes() >= self._due_minutes

    def _try(self, state: dict | None) -> None:
        try:
            self._checkpoints.save(state)
        except OSError as error:
            _logger.warning("%s; training goes on, the next try is in a minute", error)
            self._due_updates, self._due_minutes = math.inf, self._minutes() + _RETRY_MINUTES
        else:
            self._wait()

    def _wait(self) -> None:
        self._due_updates = self._updates + self._period_updates
        self._due_minutes = self._minutes() + self._period_minutes


class BestCheckpoint(keras.callbacks.Callback):
    """Writes `best/` at a better evaluation; an epoch that was broken off is never judged.

    The best value so far is that in `best/`, so a continued run knows it.

    Args:
        best: the directory.
        metrics: the `Metrics` of the same fit.
        counters: what the run has counted so far; goes into the manifest.
        monitor: the figure that says which is the best, the larger the better.
    """

    def __init__(
        self,
        best: str | Path,
        metrics: Metrics,
        *,
        counters: Callable[[], dict[str, float]],
        monitor: str = "eval_return_mean",
    ):
        super().__init__()
        self.best = Path(best)
        self.monitor = monitor
        self.best_value = -math.inf
        self._metrics = metrics
        self._counters = counters

    def on_train_begin(self, logs=None):
        self.best_value = max(self.best_value, self._saved_value())

    def on_epoch_end(self, epoch, logs=None):
        if not self.model.sequence.epoch_complete:
            return
        value = self._metrics.row(logs or {}).get(self.monitor, -math.inf)
        if value > self.best_value:
            try:
                save_agent(self.best, self.model, {**self._counters(), "epochs": epoch + 1, self.monitor: value})
            except OSError as error:
                _logger.warning("the best agent could not be saved: %s; the next better one is tried again", error)
            else:
                self.best_value = value

    def _saved_value(self) -> float:
        saved = find_complete(self.best)
        if saved is None:
            return -math.inf
        try:
            return float(check_checkpoint(saved)["counters"][self.monitor])
        except (KeyError, TypeError, ValueError) as error:
            _logger.warning("the best agent so far can't be used and will be replaced: %s", error)
            return -math.inf
