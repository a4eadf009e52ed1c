"""Writes a run's figures for TensorBoard, over agent steps."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import keras
import tensorflow as tf

from dqn_lab.callbacks.measures import BASELINES, COLUMNS
from dqn_lab.callbacks.metrics import Meter, Metrics

_TAGS = {one.key: one.tag for one in (*COLUMNS, *BASELINES)}


class TensorBoardScalars(keras.callbacks.Callback):
    """Writes a point per figure at each complete epoch's end, every so many updates inside it, and where the
    last one is broken off.

    The x axis is agent steps, which go on over fits and processes; Keras's own callback counts
    epochs or a process's batches. An epoch's points are its means; a point inside it is the mean
    since the point before, for loss and q_mean the mean over the epoch's updates so far.

    Args:
        directory: for the events file.
        metrics: the `Metrics` of the same fit.
        log_period_updates: updates between two points inside an epoch.
        texts: shown under TEXT, name -> Markdown.
        clock: seconds from any moment on.
    """

    def __init__(
        self,
        directory: str | Path,
        metrics: Metrics,
        *,
        log_period_updates: int = 1000,
        texts: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ):
        super().__init__()
        if log_period_updates < 1:
            raise ValueError(
                f"`log_period_updates` must be at least 1. Received: log_period_updates={log_period_updates}"
            )
        self._directory = str(directory)
        self._metrics = metrics
        self._period = log_period_updates
        self._texts = dict(texts or {})
        self._clock = clock
        self._writer = None
        self._meter: Meter | None = None
        self._updates = 0  # counted here: the agent's own count is a variable on the device

    def on_train_begin(self, logs=None):
        self._updates = self.model.updates
        self._writer = tf.summary.create_file_writer(self._directory)
        self._meter = Meter(self.model, self._clock)
        with self._writer.as_default():
            for name, text in self._texts.items():
                tf.summary.text(name, text, step=self.model.sequence.steps)
        self._writer.flush()

    def on_epoch_begin(self, epoch, logs=None):
        self._meter.restart_clock()

    def on_train_batch_end(self, batch, logs=None):
        self._updates += 1
        # An epoch's last update is its end's point.
        if self._updates % self._period == 0 and batch + 1 < len(self.model.sequence):
            self._write({**self._meter.measure(), **(logs or {})})

    def on_epoch_end(self, epoch, logs=None):
        if self.model.sequence.epoch_complete:
            self._write(self._metrics.row(logs or {}))
            self._meter.measure()  # the next point begins here
        elif "loss" in (logs or {}):  # broken off: a last point inside it
            self._write({**logs, **self._meter.measure()})

    def on_train_end(self, logs=None):
        self._writer.close()

    def _write(self, figures: Mapping[str, float]) -> None:
        step = int(figures["steps"])
        with self._writer.as_default():
            for key, value in figures.items():
                if key in _TAGS and math.isfinite(value):
                    tf.summary.scalar(_TAGS[key], value, step=step)
        self._writer.flush()
