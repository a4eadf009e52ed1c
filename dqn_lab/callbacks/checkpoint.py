"""Saves the agent at each complete epoch, at the end, and at a better evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import keras

from dqn_lab.callbacks.metrics import Metrics
from dqn_lab.checkpoint import keep_newest, save_agent


class Checkpoint(keras.callbacks.Callback):
    """Writes `checkpoints/<steps>/`. Placed before the evaluation: whatever happens in it, the epoch is saved.

    An epoch that was broken off is saved by the end of the fit. Where an error ends the fit, `save_if_new` saves what
    had been learnt until then.

    Args:
        checkpoints: the directory of the checkpoints by steps.
        minutes: minutes that the run has taken so far.
        keep: how many of the newest stay.
    """

    def __init__(self, checkpoints: str | Path, *, minutes: Callable[[], float], keep: int = 2):
        super().__init__()
        self.checkpoints = Path(checkpoints)
        self.keep = keep
        self._minutes = minutes
        self._epochs = 0
        self._saved_updates = -1

    def on_epoch_end(self, epoch, logs=None):
        if self.model.sequence.epoch_complete:
            self._epochs = epoch + 1
            self._save()

    def on_train_end(self, logs=None):
        self.save_if_new()

    def save_if_new(self) -> bool:
        """Saves unless there is nothing that is not saved; tells whether any save of this fit exists."""
        if self.model is None or not self.model.updates:
            return False
        if self.model.updates != self._saved_updates:
            self._save()
        return True

    def counters(self) -> dict[str, float]:
        """What the run has counted so far."""
        sequence = self.model.sequence
        return {
            "steps": int(sequence.steps),
            "frames": int(sequence.frames),
            "updates": int(self.model.updates),
            "epochs": self._epochs,
            "episodes": int(sequence.episodes),
            "minutes": float(self._minutes()),
        }

    def _save(self) -> None:
        counters = self.counters()
        save_agent(self.checkpoints / str(counters["steps"]), self.model, counters)
        keep_newest(self.checkpoints, self.keep)
        self._saved_updates = self.model.updates


class BestCheckpoint(keras.callbacks.Callback):
    """Writes `best/` at a better evaluation; an epoch that was broken off is never judged.

    Args:
        best: the directory.
        metrics: the `Metrics` of the same fit.
        checkpoint: the `Checkpoint` of the same fit.
        monitor: the figure that says which is the best, the larger the better.
    """

    def __init__(
        self, best: str | Path, metrics: Metrics, checkpoint: Checkpoint, *, monitor: str = "eval_return_mean"
    ):
        super().__init__()
        self.best = Path(best)
        self.monitor = monitor
        self.best_value = -math.inf
        self._metrics = metrics
        self._checkpoint = checkpoint

    def on_epoch_end(self, epoch, logs=None):
        if not self.model.sequence.epoch_complete:
            return
        value = self._metrics.row(logs or {}).get(self.monitor, -math.inf)
        if value > self.best_value:
            self.best_value = value
            save_agent(self.best, self.model, {**self._checkpoint.counters(), self.monitor: value})
