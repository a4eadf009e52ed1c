"""What TensorBoard's dashboards for several curves and several runs show: CUSTOM SCALARS and HPARAMS."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import keras
import tensorflow as tf
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import metadata as custom_scalar
from tensorboard.plugins.hparams import api as hparams_api
from tensorboard.plugins.hparams import api_pb2, summary

from dqn_lab.callbacks.measures import COLUMNS, LOGS_ONLY
from dqn_lab.callbacks.tensorboard import TensorBoardScalars

# Charts of CUSTOM SCALARS: title, keys of its curves.
_CHARTS = (
    ("score in evaluation", ("eval_return_mean", "eval_return_best", "baseline_random_return_mean")),
    ("score of the training games", ("train_return_mean",)),
    ("loss", ("loss",)),
    ("values: trained on, of the initial states", ("q_mean", "initial_state_value")),
    ("epsilon", ("epsilon",)),
    ("steps per second", ("steps_per_second",)),
)
_METRICS = (
    ("eval_return_mean", "score in evaluation"),
    ("eval_return_best", "best of them"),
    ("train_return_mean", "training games"),
)
# Whichever of them there are stand in the table from the first; the others can be ticked.
_FIRST = ("rundef", "game", "method", "seed", "learning_rate")
# A run without them has this in their cells: PARALLEL COORDINATES leaves out a run with an empty one among those shown.
_NAMES, _NO_NAME = {"game", "method"}, "-"
# Always texts: a seed is a name, and what is a number in one run and a text in another can't be sorted by.
_TEXTS = ("seed", "frame_skip")
_TAGS = {one.key: one.tag for one in (*COLUMNS, *LOGS_ONLY)}


class TensorBoardDashboards(keras.callbacks.Callback):
    """Writes, at the beginning of the first fit, which curves come first and what the run is compared by.

    TensorBoard takes the columns of HPARAMS from one of its runs, so each of them names the keys that others may have.

    Args:
        tensorboard: of the same fit; placed before this.
        hparams: settings of the run, by key; None and infinity leave a cell empty.
        name: of the run, by which HPARAMS calls it.
        other_keys: that other runs have.
    """

    def __init__(
        self, tensorboard: TensorBoardScalars, hparams: Mapping[str, object], name: str, other_keys: Iterable[str] = ()
    ):
        super().__init__()
        self._tensorboard, self._name, self._is_written = tensorboard, name, False
        plain = {key: _plain(key, value) for key, value in hparams.items()}
        self._hparams = {key: value for key, value in plain.items() if value is not None}
        self._types = {key: _type(key, value) for key, value in hparams.items()}
        self._keys = sorted({*hparams, *other_keys})
        for key in _NAMES & set(self._keys) - set(self._hparams):
            self._hparams[key], self._types[key] = _NO_NAME, api_pb2.DATA_TYPE_STRING

    def on_train_begin(self, logs=None):
        if self._is_written:
            return
        self._is_written = True
        with self._tensorboard.writing():
            about = custom_scalar.create_summary_metadata()
            tf.summary.write(custom_scalar.CONFIG_SUMMARY_TAG, _layout(), step=0, metadata=about)
            tf.summary.experimental.write_raw_pb(self._experiment(), step=0)
            hparams_api.hparams(self._hparams, trial_id=self._name)

    def _experiment(self) -> bytes:
        columns = [
            api_pb2.HParamInfo(name=key, type=self._types.get(key, api_pb2.DATA_TYPE_UNSET), differs=key in _FIRST)
            for key in self._keys
        ]
        metrics = [
            api_pb2.MetricInfo(name=api_pb2.MetricName(tag=_TAGS[key]), display_name=title) for key, title in _METRICS
        ]
        return summary.experiment_pb(columns, metrics).SerializeToString()


def _layout() -> bytes:
    charts = [
        layout_pb2.Chart(
            title=title, multiline=layout_pb2.MultilineChartContent(tag=[f"^{_TAGS[key]}$" for key in keys])
        )
        for title, keys in _CHARTS
    ]
    return layout_pb2.Layout(category=[layout_pb2.Category(title="main curves", chart=charts)]).SerializeToString()


def _plain(key: str, value: object) -> bool | int | float | str | None:
    """A value as HPARAMS takes it; None for an empty cell.

    Infinity and None have one: HPARAMS takes no infinite number, and can't sort a column of numbers by a text.
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value if isinstance(value, bool | int | float | str) and key not in _TEXTS else str(value)


def _type(key: str, value: object):
    if value is None:
        return api_pb2.DATA_TYPE_UNSET
    if key in _TEXTS or not isinstance(value, bool | int | float):
        return api_pb2.DATA_TYPE_STRING
    return api_pb2.DATA_TYPE_BOOL if isinstance(value, bool) else api_pb2.DATA_TYPE_FLOAT64
