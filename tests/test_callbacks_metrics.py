"""Metrics: an epoch's figures in the logs, as floats, carried on and never NaN."""

import math

import pytest
from fake_run import FakeCallback, FakeClock, FakeEvaluation, FakeFit

from dqn_lab.callbacks.measures import COLUMNS, LOGS_ONLY, OF_EVALUATION
from dqn_lab.callbacks.metrics import Meter, Metrics, Reading


def run(epochs, games=None, losses=None, evaluation=None, extra=()):
    clock = FakeClock()
    metrics = Metrics(evaluation, minutes=clock.minutes, clock=clock)
    between = [] if evaluation is None else [evaluation]
    if evaluation is not None:
        evaluation.clock = clock
    fit = FakeFit([metrics, *between, *extra], clock, games)
    fit.metrics = metrics
    fit.run(epochs, losses)
    return fit


def test_an_epochs_figures_are_those_of_the_epoch():
    fit = run(2, games={2: (10.0, 20), 3: (30.0, 40), 7: (5.0, 6)})
    first, second = fit.logs
    assert first == {
        "loss": 0.5,
        "q_mean": 2.0,
        "steps": 116.0,  # 100 of the fill + 4 updates x 4 steps
        "frames": 464.0,
        "updates": 4.0,
        "epochs": 1.0,
        "episodes": 5.0,  # 3 in the fill
        "minutes": pytest.approx(4 / 60),
        "steps_per_second": 4.0,
        "updates_per_second": 1.0,
        "epsilon": 0.96,
        "train_return_mean": 20.0,  # the fill's 30 aren't in it
        "train_length_mean": 30.0,
        "time_acting": 0.25,
        "time_environment": 0.0,
        "time_sampling": 0.0,
        "time_update": 0.5,
    }
    assert (second["train_return_mean"], second["train_length_mean"]) == (5.0, 6.0)
    assert (second["epochs"], second["steps"], second["episodes"]) == (2.0, 132.0, 6.0)


def test_logs_hold_floats_only():
    logs = run(1, games={1: (1, 2)}).logs[0]
    assert {type(value) for value in logs.values()} == {float}


def test_without_a_finished_game_the_logs_hold_minus_infinity_then_the_last_mean():
    logs = run(3, games={6: (8.0, 9)}).logs
    assert [one["train_return_mean"] for one in logs] == [-math.inf, 8.0, 8.0]
    assert [one["train_length_mean"] for one in logs] == [-math.inf, 9.0, 9.0]


def test_a_row_has_what_this_epoch_measured_and_nothing_else():
    fit = run(1)
    row = fit.metrics.row(fit.logs[-1])
    assert "train_return_mean" not in row
    assert row["loss"] == 0.5
    assert set(row) <= {one.key for one in COLUMNS}
    fit = run(2, games={1: (8.0, 9)})
    assert "train_return_mean" not in fit.metrics.row(fit.logs[-1])  # carried on


def test_evaluation_figures_are_in_a_row_only_when_there_was_an_evaluation():
    rows = []

    class Rows(FakeEvaluation):
        def on_epoch_end(self, epoch, logs):
            rows.append(self.metrics.row(logs).get("eval_return_mean"))

    taker = Rows([])
    clock = FakeClock()
    evaluation = FakeEvaluation([3.0, 4.0, 5.0], period_epochs=2)
    taker.metrics = Metrics(evaluation, minutes=clock.minutes, clock=clock)
    fit = FakeFit([taker.metrics, evaluation, taker], clock)
    logs = fit.run(5)
    assert rows == [3.0, 4.0, None, 5.0, None]  # after epochs 1, 2, 4
    assert [one["eval_return_mean"] for one in logs] == [3.0, 4.0, 4.0, 5.0, 5.0]


def test_an_evaluation_in_which_no_game_ended_leaves_its_figures_out():
    fit = run(1, evaluation=FakeEvaluation([-math.inf]))
    row = fit.metrics.row(fit.logs[-1])
    assert "eval_return_mean" not in row
    assert row["td_error"] == 0.25


def test_the_time_of_an_evaluation_is_not_in_the_rates_but_in_the_minutes():
    logs = run(2, evaluation=FakeEvaluation([1.0, 2.0])).logs  # 1,000 s each
    assert logs[1]["updates_per_second"] == 1.0
    assert logs[1]["minutes"] == pytest.approx(1008 / 60)


def test_a_broken_off_epoch_measures_nothing_and_keeps_the_last_figures():
    class Stop(FakeCallback):
        def on_train_batch_end(self, batch, logs):
            self.model.stop_training = self.model.updates == 6

    fit = run(2, games={1: (8.0, 9), 5: (100.0, 200)}, extra=[Stop()])
    assert fit.agent.updates == 6
    assert fit.logs[1]["updates"] == 4.0
    assert fit.logs[1]["train_return_mean"] == 8.0
    assert fit.metrics.row(fit.logs[1]) == {}


def test_a_meter_measures_from_one_call_to_the_next():
    clock = FakeClock()
    fit = FakeFit([], clock, games={1: (2.0, 4), 5: (6.0, 8)})
    meter = Meter(fit.agent, clock)
    fit.run(1)
    first = meter.measure()
    assert (first["updates_per_second"], first["train_return_mean"]) == (1.0, 2.0)
    clock.now += 96.0
    fit.run(1)
    second = meter.measure()
    assert (second["updates_per_second"], second["train_return_mean"]) == (0.04, 6.0)
    assert "train_return_mean" not in meter.measure()


def test_a_meter_of_no_time_at_all_divides_by_something():
    clock = FakeClock()
    meter = Meter(FakeFit([], clock).agent, clock)
    assert meter.measure()["steps_per_second"] == 0.0


def test_a_reading_is_of_one_moment():
    clock = FakeClock()
    fit = FakeFit([], clock)
    reading = Reading.of(fit.agent, clock)
    fit.run(1)
    assert reading.seconds["update"] == 0.0
    assert Reading.of(fit.agent, clock).seconds["update"] == 2.0


def test_a_meters_state_goes_on_in_another_process():
    clock = FakeClock()
    fit = FakeFit([], clock, games={5: (6.0, 8), 6: (4.0, 2)})
    fit.run(1)
    meter = Meter(fit.agent, clock)
    fit.run(2, initial_epoch=1, epoch_updates=1)
    state = meter.get_state()
    other = FakeFit([], FakeClock(), games={6: (4.0, 2)}, agent=fit.agent)
    other.clock.now = 77.0
    gone_on = Meter(other.agent, other.clock)
    gone_on.set_state(state)
    other.clock.now += 50.0
    gone_on.restart_clock()  # leaves these 50 out, not the second before
    other.run(2, initial_epoch=1, epoch_updates=3)
    figures = gone_on.measure()
    assert (figures["updates_per_second"], figures["time_update"]) == (1.0, 0.5)
    assert figures["train_return_mean"] == 5.0
    other.clock.now += 50.0
    gone_on.restart_clock()
    other.run(3, initial_epoch=2)
    assert gone_on.measure()["updates_per_second"] == 1.0


def test_a_restored_state_survives_the_fits_beginning_and_is_what_is_saved_before_it():
    clock = FakeClock()
    metrics = Metrics(minutes=clock.minutes, clock=clock)
    assert metrics.get_state()["meter"] is None  # nothing measured yet
    fit = FakeFit([metrics], clock, games={1: (8.0, 9)})
    fit.run(1)
    fit.run(2, initial_epoch=1, epoch_updates=3)  # ends an epoch, for all it knows
    state = metrics.get_state()
    anew = Metrics(minutes=clock.minutes, clock=clock)
    anew.set_state(state)
    assert anew.get_state() == state
    assert anew.train_return_mean == 8.0


def test_an_epoch_made_by_two_fits_has_the_figures_of_both_without_the_time_between():
    class Stop(FakeCallback):
        def on_train_batch_end(self, batch, logs):
            self.model.stop_training = self.model.updates == 6

    clock = FakeClock()
    metrics = Metrics(minutes=clock.minutes, clock=clock)
    fit = FakeFit([metrics, Stop()], clock, games={5: (10.0, 20), 8: (20.0, 30)})
    fit.run(2)
    clock.now += 1000.0
    fit.run(2, initial_epoch=1, epoch_updates=2)
    fit.run(3, initial_epoch=2)
    epochs = [one for one in fit.logs if one["updates"] > 4]
    assert [(one["updates"], one["updates_per_second"], one["epochs"]) for one in epochs] == [
        (8.0, 1.0, 2.0),
        (12.0, 1.0, 3.0),
    ]
    assert epochs[0]["train_return_mean"] == 15.0


def test_after_a_fit_that_raised_the_figures_begin_with_the_next():
    class Raise(FakeCallback):
        def on_train_batch_end(self, batch, logs):
            if self.model.updates == 6:
                raise ValueError("boom")

    clock = FakeClock()
    metrics = Metrics(minutes=clock.minutes, clock=clock)
    fit = FakeFit([metrics, Raise()], clock)
    fit.run(1)
    with pytest.raises(ValueError, match="boom"):
        fit.run(1)
    clock.now += 1000.0
    assert fit.run(1)[-1]["updates_per_second"] == 1.0


def test_the_columns_are_the_fixed_ones_in_their_order():
    assert ", ".join(one.key for one in COLUMNS) == (
        "steps, frames, updates, epochs, episodes, minutes, steps_per_second, updates_per_second, "
        "epsilon, loss, q_mean, train_return_mean, train_length_mean, eval_return_mean, "
        "eval_return_std, eval_length_mean, eval_episodes, eval_episodes_cut, "
        "eval_episodes_capped, initial_state_value, td_error, time_acting, time_environment, "
        "time_sampling, time_update"
    )


def test_the_tags_are_those_that_other_tools_know():
    tags = {one.key: one.tag for one in (*COLUMNS, *LOGS_ONLY)}
    assert len(set(tags.values())) == len(tags)
    expected = {
        "train_return_mean": "rollout/ep_rew_mean",
        "train_length_mean": "rollout/ep_len_mean",
        "epsilon": "rollout/exploration_rate",
        "steps_per_second": "time/fps",
        "loss": "train/loss",
        "q_mean": "train/q_mean",
        "eval_return_mean": "eval/mean_reward",
        "eval_length_mean": "eval/mean_ep_length",
        "eval_episodes": "eval/episodes",
        "initial_state_value": "eval/initial_state_value",
        "td_error": "eval/td_error",
    }
    assert {key: tags[key] for key in expected} == expected
    assert "loss" not in OF_EVALUATION
    assert {"eval_return_mean", "td_error", "baseline_random_return_mean"} <= OF_EVALUATION
