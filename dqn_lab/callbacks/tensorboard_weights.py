"""Shows in TensorBoard how the network's weights and their gradients are spread, and the first layer's filters."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from dqn_lab.callbacks.histogram import write_histogram
from dqn_lab.callbacks.metrics import Metrics
from dqn_lab.callbacks.tensorboard import TensorBoardScalars

_SIDE = 32  # pixels of a filter's picture, at least
_GAP = 4  # below a filter; half of it beside each of its channels, and as much again beside the last


class TensorBoardWeights(keras.callbacks.Callback):
    """Writes histograms and the mean and largest magnitude of each of the network's variables and of its gradient.

    The gradient is that of the update just made, of the loss as the agent defines it, before any clipping; the weights
    are those that the update left. It is computed once more, beside the update, which goes on as without it. An agent
    that doesn't tell its gradients (an asynchronous one, whose workers apply them in processes of their own) has its
    weights written at each epoch's end instead. At evaluations the first convolution's filters are shown, too.

    Args:
        tensorboard: of the same fit; placed before this, as the evaluation is.
        metrics: the `Metrics` of the same fit.
        period_updates: updates from one writing to the next.
    """

    def __init__(self, tensorboard: TensorBoardScalars, metrics: Metrics, *, period_updates: int):
        super().__init__()
        self._tensorboard, self._metrics, self._period = tensorboard, metrics, period_updates
        self._updates = 0  # counted here: the agent's own count is a variable on the device
        self._gradients: list[np.ndarray] | None = None  # of the update in progress, where it is due

    def on_train_begin(self, logs=None):
        self._updates, self._gradients = self.model.updates, None
        if self._tells_gradients:
            self.model.before_update = self._before_update

    def on_train_batch_end(self, batch, logs=None):
        if self._gradients is not None:
            self.model.sequence.settle()  # a point's step depends on no thread's timing
            gradients, self._gradients = self._gradients, None
            self._write({"weights": self._weights(), "gradients": gradients})

    def on_epoch_end(self, epoch, logs=None):
        if self.model.sequence.epoch_complete and not self._tells_gradients:
            self._write({"weights": self._weights()})
        kernel = _first_kernel(self.model.network) if self._metrics.evaluated else None
        if kernel is not None:
            with self._tensorboard.writing():
                picture = filter_picture(kernel)[None, ..., None]  # [1, H, W, 1]
                tf.summary.image("filters/first_layer", picture, step=self.model.sequence.steps)

    @property
    def _tells_gradients(self) -> bool:
        return hasattr(self.model, "gradients")

    def _before_update(self, batch: dict) -> None:
        self._updates += 1
        if self._updates % self._period == 0:
            self._gradients = self.model.gradients(batch)

    def _weights(self) -> list[np.ndarray]:
        return [keras.ops.convert_to_numpy(one) for one in self.model.network.trainable_variables]

    def _write(self, arrays: dict[str, list[np.ndarray]]) -> None:
        names = [one.path for one in self.model.network.trainable_variables]
        step = self.model.sequence.steps
        with self._tensorboard.writing():
            for kind, values in arrays.items():
                for name, each in zip(names, values, strict=True):
                    _write_spread(kind, name, each, step)


def filter_picture(kernel: np.ndarray) -> np.ndarray:
    """Draws a convolution's filters as a grid, each one's input channels beside each other, as the state has them.

    Grey is 0, white the filter's largest magnitude, black its negative.

    Args:
        kernel: [h, w, channels, filters].

    Returns:
        uint8 [H, W].
    """
    height, width, channels, filters = kernel.shape
    largest = np.abs(kernel).max(axis=(0, 1, 2), keepdims=True)  # [1, 1, 1, filters]
    scaled = np.divide(kernel, largest, out=np.zeros(kernel.shape, np.float32), where=largest > 0)
    zoom = -(-_SIDE // max(height, width))
    pixels = np.rint(127.5 + 127.5 * scaled).astype(np.uint8).repeat(zoom, 0).repeat(zoom, 1)
    parted = np.pad(pixels, ((0, _GAP), (0, _GAP // 2), (0, 0), (0, 0)))  # [h', w', channels, filters]
    tiles = parted.transpose(3, 0, 2, 1).reshape(filters, parted.shape[0], -1)  # [filters, h', channels * w']
    tiles = np.pad(tiles, ((0, 0), (0, 0), (0, _GAP)))
    columns = max(1, round(np.sqrt(filters * tiles.shape[1] / tiles.shape[2])))
    rows = -(-filters // columns)
    tiles = np.pad(tiles, ((0, rows * columns - filters), (0, 0), (0, 0)))
    grid = tiles.reshape(rows, columns, *tiles.shape[1:]).transpose(0, 2, 1, 3)  # [rows, h', columns, w'']
    return grid.reshape(rows * tiles.shape[1], -1)


def _first_kernel(network: keras.Model) -> np.ndarray | None:
    first = next((one for one in network.layers if isinstance(one, keras.layers.Conv2D)), None)
    return None if first is None else keras.ops.convert_to_numpy(first.kernel).astype(np.float32)


def _write_spread(kind: str, name: str, values: np.ndarray, step: int) -> None:
    write_histogram(f"{kind}/{name}", values, step)
    magnitudes = np.abs(values.astype(np.float64))
    for what, figure in (("mean", magnitudes.mean()), ("max", magnitudes.max())):
        if np.isfinite(figure):
            tf.summary.scalar(f"{kind}_{what}/{name}", figure, step=step)
