"""Puts the figures of evaluations into the logs that were made in another process."""

from __future__ import annotations

import keras


class ReceivedEvaluation(keras.callbacks.Callback):
    """Stands where `Evaluation` would: each complete epoch's end finds what was received before.

    Args:
        evaluation: an `Evaluation` that takes over the states of the other process's, and evaluates nothing itself.
    """

    def __init__(self, evaluation):
        super().__init__()
        self._evaluation = evaluation

    def receive(self, state: dict, media) -> None:
        """Takes over `get_state()` and `media` of the other process's, after the epoch that ends next here."""
        self._evaluation.set_state(state)
        self._evaluation.media = media

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            logs.update(self._evaluation.get_state()["logs"])
