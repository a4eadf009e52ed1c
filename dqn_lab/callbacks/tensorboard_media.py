"""Shows in TensorBoard what an evaluation leaves to look at: its first game, and values of the initial states."""

from __future__ import annotations

import keras
import tensorflow as tf
from tensorboard.plugins.image import metadata as image

from dqn_lab.callbacks.evaluation_media import EvaluationMedia
from dqn_lab.callbacks.histogram import write_histogram
from dqn_lab.callbacks.metrics import Metrics
from dqn_lab.callbacks.tensorboard import TensorBoardScalars


class TensorBoardMedia(keras.callbacks.Callback):
    """Writes the media of an evaluation at its epoch's end, where there are some.

    Args:
        tensorboard: of the same fit; placed before this, as the evaluation is.
        metrics: the `Metrics` of the same fit.
        evaluation: whose `media` are shown.
    """

    def __init__(self, tensorboard: TensorBoardScalars, metrics: Metrics, evaluation):
        super().__init__()
        self._tensorboard, self._metrics, self._evaluation = tensorboard, metrics, evaluation

    def on_epoch_end(self, epoch, logs=None):
        media: EvaluationMedia | None = self._evaluation.media
        if media is None or not self._metrics.evaluated:
            return
        step = self.model.sequence.steps
        with self._tensorboard.writing():
            if media.values.size:
                name = "action_values" if media.values.ndim == 2 else "state_values"
                write_histogram(f"eval/initial_{name}", media.values, step)
            if media.film is not None:
                content = [str(media.film.width), str(media.film.height), media.film.data]
                about = "The first game of the evaluation; of a long one every 2nd, 4th, ... step."
                metadata = image.create_summary_metadata(display_name=None, description=about)
                tf.summary.write("eval/game", tf.constant(content), step=step, metadata=metadata)
