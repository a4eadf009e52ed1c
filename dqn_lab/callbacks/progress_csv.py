"""Writes one row of figures per epoch into progress.csv."""

from __future__ import annotations

import csv
from pathlib import Path

import keras

from dqn_lab.callbacks.measures import COLUMNS
from dqn_lab.callbacks.metrics import Metrics

_WHOLE = frozenset(one.key for one in COLUMNS if one.unit in ("frames", "updates", "epochs", "episodes")) | {"steps"}


class ProgressCSV(keras.callbacks.Callback):
    """Appends a row at the end of each complete epoch; a figure that wasn't measured stays empty.

    Args:
        path: the file; its first row has the columns' names.
        metrics: the `Metrics` of the same fit.
    """

    def __init__(self, path: str | Path, metrics: Metrics):
        super().__init__()
        self.path = Path(path)
        self._metrics = metrics

    def on_train_begin(self, logs=None):
        if not self.path.exists() or not self.path.stat().st_size:
            self._append([one.key for one in COLUMNS])

    def on_epoch_end(self, epoch, logs=None):
        if self.model.sequence.epoch_complete:
            row = self._metrics.row(logs or {})
            self._append([_text(one.key, row.get(one.key)) for one in COLUMNS])

    def _append(self, cells: list[str]) -> None:
        # Opened for each row: what is read while the run goes on is always whole rows.
        with open(self.path, "a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(cells)


def _text(key: str, value: float | None) -> str:
    if value is None:
        return ""
    return str(int(value)) if key in _WHOLE else f"{value:.7g}"
