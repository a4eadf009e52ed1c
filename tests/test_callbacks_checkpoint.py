"""Checkpoints of a fit: at complete epochs, at a better evaluation, at the end."""

import os

import pytest
from fake_run import FakeCallback, FakeClock, FakeEvaluation, FakeFit

from dqn_lab.callbacks.checkpoint import BestCheckpoint, Checkpoint
from dqn_lab.callbacks.limits import Limits
from dqn_lab.callbacks.metrics import Metrics
from dqn_lab.checkpoint import check_checkpoint


def run(folder, epochs, scores=(), others=(), period_epochs=1, total_updates=1000, **arguments):
    clock = FakeClock()
    evaluation = FakeEvaluation(scores, period_epochs) if scores else None
    metrics = Metrics(evaluation, minutes=clock.minutes, clock=clock)
    checkpoint = Checkpoint(folder / "checkpoints", minutes=clock.minutes, **arguments)
    best = BestCheckpoint(folder / "best", metrics, checkpoint)
    limits = Limits(total_updates=total_updates, minutes=clock.minutes)
    callbacks = [metrics, checkpoint, *([evaluation] if scores else []), best, limits, *others]
    fit = FakeFit(callbacks, clock)
    fit.run(epochs)
    return best


def saved(folder):
    return sorted(os.listdir(folder / "checkpoints"), key=int)


def test_each_complete_epoch_is_saved_and_the_newest_two_stay(tmp_path):
    run(tmp_path, 3)
    assert saved(tmp_path) == ["132", "148"]
    assert (tmp_path / "checkpoints/148/agent.keras").read_text() == "agent after 12 updates"
    assert check_checkpoint(tmp_path / "checkpoints/148")["counters"] == {
        "steps": 148,
        "frames": 592,
        "updates": 12,
        "epochs": 3,
        "episodes": 3,
        "minutes": pytest.approx(0.2),
    }
    assert not (tmp_path / "best").exists()


def test_a_broken_off_epoch_is_saved_at_the_end(tmp_path):
    run(tmp_path, 3, total_updates=6)
    assert saved(tmp_path) == ["116", "124"]
    counters = check_checkpoint(tmp_path / "checkpoints/124")["counters"]
    assert (counters["updates"], counters["epochs"]) == (6, 1)


def test_an_end_that_is_an_epochs_end_is_saved_once(tmp_path, monkeypatch):
    saves = []
    from dqn_lab.callbacks import checkpoint as module

    monkeypatch.setattr(module, "save_agent", lambda path, *_: saves.append(path.name))
    run(tmp_path, 2, total_updates=8)
    assert saves == ["116", "132"]


@pytest.mark.parametrize(
    ("scores", "period", "best"),
    [
        ((3.0, 2.5, 3.5), 1, ["116", "148"]),
        ((3.0, 3.0, 3.0), 1, ["116"]),
        ((-21.0, -20.0, -20.5), 1, ["116", "132"]),
        ((3.0, 4.0), 2, ["116", "132"]),  # epochs 1 and 2; the third carries on
        ((float("-inf"), 1.0, 0.0), 1, ["132"]),  # none finished at first
    ],
)
def test_only_a_better_evaluation_is_the_best(tmp_path, monkeypatch, scores, period, best):
    from dqn_lab.callbacks import checkpoint as module

    saves, save = [], module.save_agent

    def record(path, agent, counters):
        if path.name == "best":
            saves.append(str(counters["steps"]))
        return save(path, agent, counters)

    monkeypatch.setattr(module, "save_agent", record)
    best_checkpoint = run(tmp_path, 3, scores, period_epochs=period)
    assert saves == best
    finite = max(score for score in scores if score > float("-inf"))
    assert best_checkpoint.best_value == finite
    assert check_checkpoint(tmp_path / "best")["counters"]["eval_return_mean"] == finite


@pytest.mark.case("B027")
def test_a_fit_that_an_error_ends_keeps_the_last_good_one(tmp_path):
    class Diverges(FakeCallback):
        def on_train_batch_end(self, batch, logs):
            if self.model.updates == 9:
                raise FloatingPointError("the loss of update 9 is not finite")

    with pytest.raises(FloatingPointError):
        run(tmp_path, 5, others=[Diverges()])
    assert saved(tmp_path) == ["116", "132"]
    assert check_checkpoint(tmp_path / "checkpoints/132")["counters"]["updates"] == 8
