"""Writes a run's figures for TensorBoard, over agent steps."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

from dqn_lab.callbacks.measures import COLUMNS, LOGS_ONLY
from dqn_lab.callbacks.metrics import Metered, Metrics

_TAGS = {one.key: one.tag for one in (*COLUMNS, *LOGS_ONLY)}


class TensorBoardScalars(Metered):
    """Writes a point per figure at each complete epoch's end, every so many updates inside it, and where the
    last one is broken off.

    The x axis is agent steps, which go on over fits and processes; Keras's own callback counts
    epochs or a process's batches. An epoch's points are its means; a point inside it is the mean
    since the point before, for loss and q_mean the mean over the epoch's updates so far.

    Args:
        directory: for the events file.
        metrics: the `Metrics` of the same fit.
        log_period_updates: updates between two points inside an epoch.
        texts: shown under TEXT, name -> Markdown; written by the first fit.
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
        super().__init__(clock)
        if log_period_updates < 1:
            raise ValueError(
                f"`log_period_updates` must be at least 1. Received: log_period_updates={log_period_updates}"
            )
        self._directory = str(directory)
        self._metrics = metrics
        self._period = log_period_updates
        self._texts = dict(texts or {})
        self._writer = None
        self._updates = 0  # counted here: the agent's own count is a variable on the device
        self._newest: int | None = None  # step of the newest point

    def on_train_begin(self, logs=None):
        super().on_train_begin()
        self._updates = self.model.updates
        with _told_by_the_system():
            self._writer = tf.summary.create_file_writer(self._directory)
        with self.writing():
            for name, text in self._texts.items():
                tf.summary.text(name, text, step=self.model.sequence.steps)
        self._texts.clear()

    def on_train_batch_end(self, batch, logs=None):
        self._updates += 1
        # An epoch's last update is its end's point.
        if self._updates % self._period == 0 and not self.model.sequence.epoch_complete:
            self.model.sequence.settle()  # a point's step depends on no thread's timing
            self._write({**self._meter.measure(), **(logs or {})})

    def on_epoch_end(self, epoch, logs=None):
        if self.model.sequence.epoch_complete:
            self._write(self._metrics.row(logs or {}))
            self._meter.measure()  # the next point begins here
        elif "loss" in (logs or {}) and self._newest != self.model.sequence.steps:  # broken off: a last point inside it
            own = {key: logs[key] for key in ("loss", "q_mean") if key in logs}  # what else is there is carried on
            self._write({**own, **self._meter.measure()})

    def on_train_end(self, logs=None):
        super().on_train_end()
        with _told_by_the_system():
            self._writer.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Inside a fit: what `tf.summary` writes goes into this events file, so that a run has one, and to the disk.

        Raises:
            OSError: the disk refuses it.
        """
        with _told_by_the_system():
            with self._writer.as_default():
                yield
            self._writer.flush()

    def _write(self, figures: Mapping[str, float]) -> None:
        self._newest = step = int(figures["steps"])
        with self.writing():
            for key, value in figures.items():
                if key in _TAGS and math.isfinite(value):
                    tf.summary.scalar(_TAGS[key], value, step=step)


@contextmanager
def _told_by_the_system() -> Iterator[None]:
    """Raises OSError for what the disk refuses, in a line; TensorFlow's error is none and has several."""
    try:
        yield
    except tf.errors.OpError as error:
        line = re.sub(r"\{\{.*?\}\}\s*", "", error.message.splitlines()[0])
        raise OSError(f"TensorBoard's events can't be written: {line}") from error
