"""Keeps the network's weights of every evaluation."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import keras

from dqn_lab.callbacks.metrics import Metrics

_logger = logging.getLogger("dqn_lab")


class KeepWeights(keras.callbacks.Callback):
    """Writes `<steps>.weights.h5` at each evaluation and removes none. Placed after the evaluation.

    A file is there whole or not at all: it is written beside its place and renamed.

    Args:
        directory: for the files; made at the first.
        metrics: the `Metrics` of the same fit.
    """

    def __init__(self, directory: str | Path, metrics: Metrics):
        super().__init__()
        self.directory = Path(directory)
        self._metrics = metrics

    def on_epoch_end(self, epoch, logs=None):
        if self._metrics.evaluated:
            path = self.directory / f"{self.model.sequence.steps}.weights.h5"
            try:
                self._write(path)
            except OSError as error:
                _logger.warning("%s could not be saved: %s", path, error)

    def _write(self, path: Path) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        part = self.directory / ".part.weights.h5"  # one name: what a killed run left is written over
        try:
            self.model.network.save_weights(part)
            with open(part, "r+b") as file:
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
