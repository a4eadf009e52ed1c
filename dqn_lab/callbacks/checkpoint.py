"""Saves the agent at each complete epoch, at a better evaluation and at the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import keras

from dqn_lab.callbacks.metrics import Metrics
from dqn_lab.checkpoint import keep_newest, save_agent


class Checkpoint(keras.callbacks.Callback):
    """Writes `checkpoints/<steps>/` and, at a better evaluation, `best/`.

    An epoch that was broken off is saved by the end of the fit, and never judged. A fit that an
    error ends saves nothing: what is there is the last that was good.

    Args:
        checkpoints: the directory of the checkpoints by steps.
        best: the directory of the one with the best evaluation.
        metrics: the `Metrics` of the same fit.
        minutes: minutes that the run has taken so far.
        keep: how many of the newest stay.
        monitor: the figure that says which is the best, the larger the better.
    """

    def __init__(
        self,
        checkpoints: str | Path,
        best: str | Path,
        metrics: Metrics,
        *,
        minutes: Callable[[], float],
        keep: int = 2,
        monitor: str = "eval_return_mean",
    ):
        super().__init__()
        self.checkpoints = Path(checkpoints)
        self.best = Path(best)
        self.keep = keep
        self.monitor = monitor
        self.best_value = -math.inf
        self._metrics = metrics
        self._minutes = minutes
        self._epochs = 0
        self._saved_updates = -1

    def on_epoch_end(self, epoch, logs=None):
        if not self.model.sequence.epoch_complete:
            return
        self._epochs = epoch + 1
        self._save()
        value = self._metrics.row(logs or {}).get(self.monitor, -math.inf)
        if value > self.best_value:
            self.best_value = value
            save_agent(self.best, self.model, {**self._counters(), self.monitor: value})

    def on_train_end(self, logs=None):
        if self.model.updates != self._saved_updates:
            self._save()

    def _save(self) -> None:
        counters = self._counters()
        save_agent(self.checkpoints / str(counters["steps"]), self.model, counters)
        keep_newest(self.checkpoints, self.keep)
        self._saved_updates = self.model.updates

    def _counters(self) -> dict[str, float]:
        sequence = self.model.sequence
        return {
            "steps": int(sequence.steps),
            "frames": int(sequence.frames),
            "updates": int(self.model.updates),
            "epochs": self._epochs,
            "episodes": int(sequence.episodes),
            "minutes": float(self._minutes()),
        }
