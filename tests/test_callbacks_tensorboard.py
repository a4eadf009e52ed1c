"""TensorBoard: every figure over agent steps, at epochs' ends and inside them."""

import math

import pytest
import tensorflow as tf
from fake_run import FakeCallback, FakeClock, FakeEvaluation, FakeFit
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from dqn_lab.callbacks.limits import Limits
from dqn_lab.callbacks.metrics import Metrics
from dqn_lab.callbacks.tensorboard import TensorBoardScalars


def run(folder, epochs, scores=(), period_epochs=1, total_updates=1000, games=None, **arguments):
    clock = FakeClock()
    evaluation = FakeEvaluation(scores, period_epochs) if scores else None
    metrics = Metrics(evaluation, minutes=clock.minutes, clock=clock)
    scalars = TensorBoardScalars(folder, metrics, clock=clock, **arguments)
    limits = Limits(total_updates=total_updates, minutes=clock.minutes)
    callbacks = [metrics, *([evaluation] if scores else []), scalars, limits]
    FakeFit(callbacks, clock, games).run(epochs, losses=[1.0, 2.0, 6.0, 3.0] * epochs)
    return read(folder)


def read(folder):
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    return events


def points(events, tag):
    from tensorflow import make_ndarray

    return [(one.step, make_ndarray(one.tensor_proto).item()) for one in events.Tensors(tag)]


@pytest.mark.case("B115")
def test_every_figure_is_over_agent_steps(tmp_path):
    events = run(tmp_path, 3, scores=[1.0, 2.0, 3.0], games={1: (8.0, 9), 5: (1.0, 2), 9: (3.0, 4)})
    tags = events.Tags()["tensors"]
    for tag in ("train/loss", "rollout/exploration_rate", "rollout/ep_rew_mean", "eval/mean_reward"):
        assert [step for step, _ in points(events, tag)] == [116, 132, 148]
    for tag in tags:
        assert {step for step, _ in points(events, tag)} <= {116, 132, 148}
    assert points(events, "train/loss") == [(116, 3.0), (132, 3.0), (148, 3.0)]
    assert points(events, "baseline/random_return")[0] == (116, 1.0)


def test_inside_an_epoch_a_point_is_of_the_updates_since_the_last(tmp_path):
    events = run(tmp_path, 2, log_period_updates=2, games={1: (8.0, 9), 4: (2.0, 4), 6: (3.0, 4)})
    assert points(events, "rollout/ep_rew_mean") == [
        (108, 8.0),  # after update 2
        (116, 5.0),  # the epoch's own mean at its end
        (124, 3.0),  # after update 6
        (132, 3.0),
    ]
    assert points(events, "train/loss")[0] == (108, 1.5)  # of the epoch so far
    assert points(events, "time/fps") == [(108, 4.0), (116, 4.0), (124, 4.0), (132, 4.0)]
    assert [step for step, _ in points(events, "time/epochs")] == [116, 132]


def test_what_was_not_measured_has_no_point(tmp_path):
    events = run(tmp_path, 3, scores=[1.0, 2.0], period_epochs=2)
    assert points(events, "eval/mean_reward") == [(116, 1.0), (132, 2.0)]
    assert "rollout/ep_rew_mean" not in events.Tags()["tensors"]
    assert "eval/mean_ep_length" not in events.Tags()["tensors"]


def test_a_broken_off_epoch_has_the_points_inside_it_and_one_where_it_ended(tmp_path):
    events = run(tmp_path, 3, total_updates=7, log_period_updates=3)
    assert [step for step, _ in points(events, "train/loss")] == [112, 116, 124, 128]


def test_network_and_configuration_are_shown_as_text(tmp_path):
    events = run(tmp_path, 1, texts={"config": "seed 1", "network": "dense"})
    assert events.Tensors("config")[0].tensor_proto.string_val == [b"seed 1"]
    assert events.Tensors("network")[0].step == 100


def test_texts_are_written_by_the_first_fit_alone(tmp_path):
    clock = FakeClock()
    metrics = Metrics(minutes=clock.minutes, clock=clock)
    fit = FakeFit([metrics, TensorBoardScalars(tmp_path, metrics, texts={"config": "seed 1"}, clock=clock)], clock)
    fit.run(1)
    fit.run(2, initial_epoch=1)
    assert [one.step for one in read(tmp_path).Tensors("config")] == [100]


def test_in_the_rest_of_an_epoch_its_last_update_is_the_epochs_point(tmp_path):
    clock = FakeClock()
    metrics = Metrics(minutes=clock.minutes, clock=clock)
    scalars = TensorBoardScalars(tmp_path, metrics, log_period_updates=1, clock=clock)
    FakeFit([metrics, scalars], clock).run(1, losses=[1.0, 3.0, 5.0], epoch_updates=3)
    assert points(read(tmp_path), "train/loss") == [(104, 1.0), (108, 2.0), (112, 3.0)]


def test_where_an_epoch_was_broken_off_is_no_point_of_what_was_measured_before(tmp_path):
    events = run(tmp_path, 3, scores=[1.0], total_updates=6, games={1: (8.0, 9)})
    for tag in ("eval/mean_reward", "baseline/random_return", "rollout/ep_rew_mean", "time/epochs", "time/minutes"):
        assert [step for step, _ in points(events, tag)] == [116]
    assert points(events, "train/loss")[1:] == [(124, 1.5)]
    assert points(events, "train/q_mean")[1:] == [(124, 2.0)]


def test_an_epoch_broken_off_at_a_point_has_no_second_one_there(tmp_path):
    events = run(tmp_path, 3, total_updates=6, log_period_updates=2)
    assert points(events, "time/fps") == [(108, 4.0), (116, 4.0), (124, 4.0)]


def test_no_point_is_infinite(tmp_path):
    events = run(tmp_path, 2, scores=[-math.inf, 1.0])
    assert points(events, "eval/mean_reward") == [(132, 1.0)]


def test_the_period_must_be_at_least_1(tmp_path):
    with pytest.raises(ValueError, match="must be at least 1. Received: log_period_updates=0"):
        TensorBoardScalars(tmp_path, None, log_period_updates=0)


def test_a_full_disk_is_told_in_a_line(tmp_path, monkeypatch):
    clock = FakeClock()
    metrics = Metrics(minutes=clock.minutes, clock=clock)
    tensorboard = TensorBoardScalars(tmp_path, metrics, clock=clock)

    class Full(FakeCallback):
        def on_train_begin(self):
            def flush():
                message = "{{function_node __wrapped__Flush}} /runs/a; No space left on device\n\tFailed to flush"
                raise tf.errors.ResourceExhaustedError(None, None, message)

            monkeypatch.setattr(tensorboard._writer, "flush", flush)

    with pytest.raises(OSError, match="^TensorBoard's events can't be written: /runs/a; No space left on device$"):
        FakeFit([metrics, tensorboard, Full()], clock).run(1)
