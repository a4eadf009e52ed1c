"""Weights of every evaluation: whole files, and none is ever removed."""

import os
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from fake_run import FakeClock, FakeEvaluation, FakeFit

from dqn_lab.callbacks.metrics import Metrics
from dqn_lab.callbacks.weights import KeepWeights


def make_fit(folder, period_epochs=1, network=None):
    clock = FakeClock()
    evaluation = FakeEvaluation([1.0] * 9, period_epochs)
    metrics = Metrics(evaluation, minutes=clock.minutes, clock=clock)
    fit = FakeFit([metrics, evaluation, KeepWeights(folder, metrics)], clock)
    fit.agent.network = network or SimpleNamespace(save_weights=lambda path: path.write_text(str(fit.agent.updates)))
    return fit


def test_each_evaluations_weights_are_kept(tmp_path):
    make_fit(tmp_path / "weights", period_epochs=2).run(5)
    kept = {file.name: file.read_text() for file in (tmp_path / "weights").iterdir()}
    assert kept == {"116.weights.h5": "4", "132.weights.h5": "8", "164.weights.h5": "16"}  # epochs 1, 2, 4


def test_an_epoch_that_was_broken_off_keeps_none(tmp_path):
    make_fit(tmp_path / "weights").run(1, epoch_updates=4)
    fit = make_fit(tmp_path / "other")
    fit.callbacks[0].on_train_batch_end = lambda *_: setattr(fit.agent, "stop_training", fit.agent.updates == 2)
    fit.run(1)
    assert [folder.name for folder in tmp_path.iterdir()] == ["weights"]


def test_the_network_loads_them(tmp_path):
    network = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    make_fit(tmp_path, network=network).run(1)
    other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    other.load_weights(tmp_path / "116.weights.h5")
    for ours, theirs in zip(network.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_write_that_fails_is_told_and_leaves_what_was_there(tmp_path, monkeypatch, caplog, name):
    def fail(*_):
        raise OSError(28, "No space left on device")

    (tmp_path / "116.weights.h5").write_text("older")
    monkeypatch.setattr(os, name, fail)
    make_fit(tmp_path).run(1)
    assert "116.weights.h5 could not be saved: [Errno 28] No space left on device" in caplog.text
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"116.weights.h5": "older"}


def test_what_a_killed_write_left_is_written_over(tmp_path):
    (tmp_path / ".part.weights.h5").write_text("torn, and longer than what comes")
    make_fit(tmp_path).run(1)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"116.weights.h5": "4"}
