"""progress.csv: a row per complete epoch, empty where nothing was measured."""

import csv

from fake_run import FakeCallback, FakeClock, FakeEvaluation, FakeFit

from dqn_lab.callbacks.limits import Limits
from dqn_lab.callbacks.measures import COLUMNS
from dqn_lab.callbacks.metrics import Metrics
from dqn_lab.callbacks.progress_csv import ProgressCSV


def run(path, epochs, total_updates=1000, **arguments):
    clock = FakeClock()
    evaluation = FakeEvaluation([3.0, 4.5], period_epochs=2)
    metrics = Metrics(evaluation, minutes=clock.minutes, clock=clock)
    limits = Limits(total_updates=total_updates, minutes=clock.minutes)
    fit = FakeFit([metrics, evaluation, ProgressCSV(path, metrics), limits], clock, **arguments)
    fit.run(epochs, losses=[1.0, 2.0, 6.0, 3.0] * epochs)
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_row_per_epoch_with_the_fixed_columns(tmp_path):
    rows = run(tmp_path / "progress.csv", 3, games={1: (10.0, 20)})
    assert list(rows[0]) == [one.key for one in COLUMNS]
    assert [row["steps"] for row in rows] == ["116", "132", "148"]
    assert [row["epochs"] for row in rows] == ["1", "2", "3"]
    assert [row["loss"] for row in rows] == ["3", "3", "3"]  # (1 + 2 + 6 + 3) / 4
    assert rows[0]["steps_per_second"] == "4"
    assert rows[0]["minutes"] == "0.06666667"


def test_what_was_not_measured_is_empty(tmp_path):
    rows = run(tmp_path / "progress.csv", 3, games={1: (10.0, 20)})
    assert [row["train_return_mean"] for row in rows] == ["10", "", ""]
    assert [row["eval_return_mean"] for row in rows] == ["3", "4.5", ""]
    assert [row["eval_episodes"] for row in rows] == ["", "", ""]


def test_a_broken_off_epoch_writes_no_row(tmp_path):
    rows = run(tmp_path / "progress.csv", 3, total_updates=6)
    assert [row["updates"] for row in rows] == ["4"]


def test_an_existing_file_gets_no_second_header(tmp_path):
    run(tmp_path / "progress.csv", 1)
    rows = run(tmp_path / "progress.csv", 1)
    assert [row["updates"] for row in rows] == ["4", "4"]


def test_a_row_has_the_epochs_number_in_the_run(tmp_path):
    clock = FakeClock()
    metrics = Metrics(minutes=clock.minutes, clock=clock)
    path = tmp_path / "progress.csv"
    FakeFit([metrics, ProgressCSV(path, metrics)], clock).run(7, initial_epoch=5)
    with open(path, newline="", encoding="utf-8") as file:
        assert [row["epochs"] for row in csv.DictReader(file)] == ["6", "7"]


def test_nothing_but_whole_rows_is_ever_in_the_file(tmp_path):
    path, seen = tmp_path / "progress.csv", []

    class Reader(FakeCallback):
        def on_train_batch_end(self, batch, logs):
            seen.append(path.read_text(encoding="utf-8"))

    clock = FakeClock()
    metrics = Metrics(minutes=clock.minutes, clock=clock)
    FakeFit([metrics, ProgressCSV(path, metrics), Reader()], clock).run(2)
    assert {text[-1] for text in seen} == {"\n"}
    assert [text.count("\n") for text in seen] == [1] * 4 + [2] * 4
