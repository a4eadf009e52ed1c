"""Weights, gradients and filters in TensorBoard: what real runs write, how often, and nothing when it is off."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import toy_async_rundef
import toy_rundef
from inline_workers import inline
from run_states import rows
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from dqn_lab import DQN, EnvironmentSequence, cli
from dqn_lab.agents.agent import Agent
from dqn_lab.callbacks.metrics import Metrics
from dqn_lab.callbacks.tensorboard import TensorBoardScalars
from dqn_lab.callbacks.tensorboard_weights import TensorBoardWeights, filter_picture
from dqn_lab.environments.catch import Catch
from dqn_lab.models.networks import catch, mlp

VARIABLES = ["hidden_1/kernel", "hidden_1/bias", "action_values/kernel", "action_values/bias"]
GROUPS = ("weights", "weights_mean", "weights_max", "gradients", "gradients_mean", "gradients_max")


def events_of(folder):
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    return events


def tags_of(events):
    """Those of weights, gradients and filters."""
    return {tag for tag in events.Tags()["tensors"] if tag.startswith(("weights", "gradients", "filters"))}


def steps_of(events, tag):
    return [one.step for one in events.Tensors(tag)]


def points_of(events, tag):
    return [tf.make_ndarray(one.tensor_proto) for one in events.Tensors(tag)]


def trained(folder, rundef=toy_rundef, callbacks=(), **settings):
    run = rundef.run(**{"log_weights": True} | settings)
    run.train(folder / "run", callbacks=callbacks, rundef="toy")
    return run, events_of(folder / "run")


class Tape(keras.callbacks.Callback):
    """Keeps the weights after each update, and of each minibatch the gradient that a tape of its own finds."""

    def __init__(self):
        super().__init__()
        self.weights, self.gradients = [], []

    def on_epoch_begin(self, epoch, logs=None):
        if getattr(self, "told", None) is None:
            self.told = self.model.before_update
            self.model.before_update = self.note

    def note(self, batch):
        agent, variables = self.model, self.model.network.trainable_variables
        with tf.GradientTape() as tape:
            losses = agent.example_losses({name: tf.constant(values) for name, values in batch.items()})
            loss = tf.reduce_mean(batch["weight"] * losses)
        self.gradients.append([each.numpy() for each in tape.gradient(loss, [one.value for one in variables])])
        for metric in agent.metrics:
            metric.reset_state()
        self.told(batch)

    def on_train_batch_end(self, batch, logs=None):
        self.weights.append(self.model.network.get_weights())


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Updates 1 to 22, of which every 4th is written."""
    tape = Tape()
    folder = tmp_path_factory.mktemp("runs")
    run, events = trained(folder, callbacks=[tape], log_period_updates=4, total_updates=22)
    return run, events, tape


# What is written.


def test_each_variable_has_its_curves_and_histograms_every_so_many_updates(written):
    run, events, _ = written
    names = [one.path for one in run.agent.network.trainable_variables]
    assert len(names) == 4
    assert tags_of(events) == {f"{group}/{name}" for group in GROUPS for name in names}
    for tag in tags_of(events):
        assert steps_of(events, tag) == [40 + 4 * update for update in (4, 8, 12, 16, 20)]
        plugin = "scalars" if tag.partition("/")[0].endswith(("mean", "max")) else "histograms"
        assert events.SummaryMetadata(tag).plugin_data.plugin_name == plugin


@pytest.mark.parametrize("kind", ["weights", "gradients"])
def test_they_are_the_weights_after_the_update_and_its_own_gradient(written, kind):
    run, events, tape = written
    assert len(tape.gradients) == len(tape.weights) == 22
    for place, variable in enumerate(run.agent.network.trainable_variables):
        expected = [getattr(tape, kind)[update - 1][place] for update in (4, 8, 12, 16, 20)]
        means, largest = (points_of(events, f"{kind}_{what}/{variable.path}") for what in ("mean", "max"))
        np.testing.assert_allclose(means, [np.abs(each).mean() for each in expected], rtol=1e-4)
        np.testing.assert_allclose(largest, [np.abs(each).max() for each in expected], rtol=1e-4)
        for values, buckets in zip(expected, points_of(events, f"{kind}/{variable.path}"), strict=True):
            assert buckets[:, 2].sum() == values.size
            if np.ptp(values):
                ends = [values.min(), values.max()]
                np.testing.assert_allclose([buckets[0, 0], buckets[-1, 1]], ends, rtol=1e-4, atol=1e-7)


def test_a_continued_run_goes_on_with_the_period_of_the_whole_run(tmp_path):
    trained(tmp_path, log_period_updates=4, total_updates=7)
    _, events = trained(tmp_path, log_period_updates=4, total_updates=14)
    for tag in tags_of(events):
        assert steps_of(events, tag) == [56, 72, 88]  # updates 4, 8 and 12


def test_a_run_of_fewer_updates_than_the_period_has_none(tmp_path):
    _, events = trained(tmp_path, total_updates=12)
    assert tags_of(events) == set()


def test_what_is_not_finite_has_no_point(tmp_path):
    class Unfinite(Agent):
        def gradients(self, batch):
            return [np.full(one.shape, np.nan, np.float32) for one in self.network.trainable_variables]

    class Learns(Unfinite, DQN):
        pass

    sequence = sequence_of()
    agent = Learns(mlp((10, 5, 1), 3, hidden=(8,), seed=3), target_period_updates=2)
    events = fitted(tmp_path, agent, sequence)
    assert {tag.partition("/")[0] for tag in tags_of(events)} == {"weights", "weights_mean", "weights_max"}


# When it is off.


def test_off_nothing_is_written_asked_for_or_computed(tmp_path, monkeypatch):
    def fail(*_):
        raise AssertionError("computed")

    monkeypatch.setattr(Agent, "gradients", fail)
    monkeypatch.setattr(TensorBoardWeights, "__init__", fail)
    seen = []

    class Looks(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(self.model.before_update)

    _, events = trained(tmp_path, callbacks=[Looks()], log_weights=False, log_period_updates=1, total_updates=12)
    assert seen == [None] * 12
    assert tags_of(events) == set()


def test_between_two_points_no_gradient_is_computed(tmp_path, monkeypatch):
    asked, gradients = [], Agent.gradients
    monkeypatch.setattr(Agent, "gradients", lambda agent, batch: asked.append(agent.updates) or gradients(agent, batch))
    trained(tmp_path, log_period_updates=5, total_updates=12)
    assert asked == [4, 9]  # updates made before


def test_a_run_learns_the_same_with_and_without(tmp_path):
    runs = []
    for name, settings in (("off", {"log_weights": False}), ("on", {"log_period_updates": 3})):
        (tmp_path / name).mkdir()
        runs.append(trained(tmp_path / name, total_updates=25, **settings)[0].agent)
    for one, other in zip(runs[0].variables, runs[1].variables, strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(runs[0].optimizer.variables, runs[1].optimizer.variables, strict=True):
        np.testing.assert_array_equal(one, other)
    assert rows(tmp_path / "on" / "run") == rows(tmp_path / "off" / "run")


# Asynchronous runs.


def test_an_asynchronous_run_has_its_weights_at_its_epochs_ends(tmp_path):
    with inline():
        run, events = trained(tmp_path, toy_async_rundef)
    names = [one.path for one in run.agent.network.trainable_variables]
    assert tags_of(events) == {f"{group}/{name}" for group in GROUPS[:3] for name in names}
    for tag in tags_of(events):
        assert steps_of(events, tag) == steps_of(events, "time/epochs")
    assert len(steps_of(events, "time/epochs")) == 3
    for variable in run.agent.network.trainable_variables:
        largest = points_of(events, f"weights_max/{variable.path}")[-1]
        assert largest == pytest.approx(np.abs(variable.numpy()).max())


# Filters.


def sequence_of():
    return EnvironmentSequence(
        Catch, replay_capacity_steps=100, replay_min_steps=8, updates_per_epoch=4, batch_size=4, epsilon=1.0, seed=1
    )


class Evaluates(keras.callbacks.Callback):
    """Stands where an evaluation stands: each second epoch is evaluated."""

    period_epochs = 2
    complete_epochs = 0

    def on_epoch_end(self, epoch, logs=None):
        self.complete_epochs += 1


def fitted(folder, agent, sequence, epochs=1):
    agent.compile(keras.optimizers.Adam(1e-2))
    evaluation = Evaluates()
    metrics = Metrics(evaluation, minutes=lambda: 0.0)
    scalars = TensorBoardScalars(folder, metrics)
    weights = TensorBoardWeights(scalars, metrics, period_updates=4)
    agent.fit(sequence, epochs=epochs, callbacks=[metrics, evaluation, scalars, weights], verbose=0)
    sequence.close()
    return events_of(folder)


def test_the_first_convolutions_filters_are_shown_at_evaluations(tmp_path):
    sequence = sequence_of()
    agent = DQN(catch(sequence.state_shape, 3, seed=3), target_period_updates=2)
    events = fitted(tmp_path, agent, sequence, epochs=4)
    assert steps_of(events, "filters/first_layer") == [
        step
        for number, step in enumerate(steps_of(events, "time/epochs"), 1)
        if number in (1, 2, 4)  # evaluated
    ]
    width, height, data = events.Tensors("filters/first_layer")[-1].tensor_proto.string_val
    kernel = next(one for one in agent.network.layers if isinstance(one, keras.layers.Conv2D)).kernel.numpy()
    np.testing.assert_array_equal(tf.io.decode_png(data).numpy()[:, :, 0], filter_picture(kernel))
    assert (int(height), int(width)) == filter_picture(kernel).shape


def test_a_network_without_a_convolution_has_no_filters(tmp_path):
    sequence = sequence_of()
    agent = DQN(mlp((10, 5, 1), 3, hidden=(8,), seed=3), target_period_updates=2)
    assert "filters/first_layer" not in tags_of(fitted(tmp_path, agent, sequence))


def test_grey_is_0_white_the_largest_magnitude_and_black_its_negative():
    kernel = np.zeros((2, 2, 1, 1), np.float32)
    kernel[:, :, 0, 0] = [[0.5, -0.5], [0, 0.25]]
    picture = filter_picture(kernel)
    assert picture.shape == (32 + 4, 32 + 2 + 4)  # a weight is 16 pixels; gaps below and beside
    assert picture.dtype == np.uint8
    assert [picture[y, x] for y, x in ((0, 0), (15, 15), (0, 16), (16, 0), (31, 31))] == [255, 255, 0, 128, 191]
    assert not picture[32:].any()
    assert not picture[:, 32:].any()


def test_channels_lie_beside_each_other_and_each_filter_has_its_own_scale():
    kernel = np.zeros((1, 1, 2, 2), np.float32)
    kernel[0, 0, :, 0] = [1.0, -0.5]  # the first filter's channels
    kernel[0, 0, :, 1] = [-0.01, 0.005]
    picture = filter_picture(kernel)  # a weight is 32 pixels, a filter 36 by 2 * 34 + 4
    assert picture.shape == (2 * 36, 72)  # one above the other: the picture is as square as it can be
    assert [picture[y, x] for y, x in ((0, 0), (0, 34), (36, 0), (36, 34))] == [255, 64, 0, 191]


@pytest.mark.parametrize(
    ("shape", "rows", "columns"),
    [((8, 8, 4, 32), 11, 3), ((3, 3, 1, 16), 4, 4), ((3, 3, 1, 5), 3, 2), ((7, 5, 3, 2), 2, 1)],
)
def test_filters_fill_a_grid_line_by_line(shape, rows, columns):
    kernel = np.zeros(shape, np.float32)
    kernel[0, 0, 0, :] = np.where(np.arange(shape[3]) % 3 == 0, 1.0, -1.0)  # every third one's corner is white
    zoom = -(-32 // max(shape[:2]))
    height, width = shape[0] * zoom + 4, shape[2] * (shape[1] * zoom + 2) + 4
    picture = filter_picture(kernel)
    assert picture.shape == (rows * height, columns * width)
    corners = [picture[number // columns * height, number % columns * width] for number in range(shape[3])]
    assert corners == [255 if number % 3 == 0 else 0 for number in range(shape[3])]
    for number in range(shape[3], rows * columns):  # the rest of the last line
        assert not picture[-height:, number % columns * width :].any()


def test_filters_of_zeros_are_grey():
    picture = filter_picture(np.zeros((4, 4, 1, 1), np.float32))
    assert set(picture[:32, :32].ravel()) == {128}


# Bad input.


@pytest.mark.parametrize(
    ("setting", "rule"),
    [
        ("log_weights=1", "log_weights must be true or false. Received: log_weights=1"),
        ("log_weights=0", "log_weights must be true or false. Received: log_weights=0"),
        ("log_weights=-5", "log_weights must be true or false. Received: log_weights=-5"),
        ("log_weights=none", "log_weights must be true or false. Received: log_weights=none"),
        ("log_weights=yes please", "log_weights must be true or false. Received: log_weights=yes please"),
        ("log_period_updates=0", "`log_period_updates` must be at least 1. Received: log_period_updates=0"),
        ("log_period_updates=-3", "`log_period_updates` must be at least 1. Received: log_period_updates=-3"),
        ("log_period_updates=2.5", "log_period_updates must be an integer. Received: log_period_updates=2.5"),
        ("log_period_updates=none", "log_period_updates must be an integer. Received: log_period_updates=none"),
    ],
)
def test_a_wrong_value_is_one_line_and_leaves_nothing(tmp_path, capsys, monkeypatch, setting, rule):
    monkeypatch.chdir(tmp_path)
    assert cli.train(["catch", "--set", setting, "--set", "initial_states_dir=none"]) != 0
    err = capsys.readouterr().err
    assert err.startswith("dqn-train: error: ")
    assert err.count("\n") == 1
    assert rule in err
    assert list(tmp_path.iterdir()) == []
