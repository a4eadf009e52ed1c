"""Checkpoints of a fit: now and then between two updates, at its end, and the best agent's."""

import errno
import os

import pytest
from fake_run import FakeCallback, FakeClock, FakeEvaluation, FakeFit

from dqn_lab.callbacks.checkpoint import BestCheckpoint, Checkpoint
from dqn_lab.callbacks.limits import Limits
from dqn_lab.callbacks.metrics import Metrics
from dqn_lab.checkpoint import check_checkpoint


class FakeCheckpoints:
    """Notes what is saved: updates made, epochs over."""

    def __init__(self):
        self.epochs, self.saved, self.failures = 0, [], []

    def get_state(self):
        return {"updates": self.model.updates, "epochs": self.epochs}

    def save(self, state=None):
        if self.failures and self.failures.pop(0):
            raise OSError(errno.ENOSPC, "No space left on device")
        self.saved.append(tuple((self.get_state() if state is None else state).values()))

    def save_if_new(self, state=None):
        if not self.saved or self.saved[-1] != tuple((self.get_state() if state is None else state).values()):
            self.save(state)
        return bool(self.saved)


class Tape(FakeCallback):
    """Notes when each callback after Checkpoint is done with an update or an epoch."""

    def __init__(self, checkpoints):
        self.checkpoints, self.at_save, self.last = checkpoints, [], None
        save = checkpoints.save
        checkpoints.save = lambda state=None: (self.at_save.append(self.last), save(state))

    def on_train_batch_end(self, batch, logs):
        self.last = ("update", self.model.updates)

    def on_epoch_end(self, epoch, logs):
        self.last = ("epoch", epoch)


class Raising(FakeCallback):
    def __init__(self, update=None, epoch=None):
        self.update, self.epoch = update, epoch

    def on_train_batch_end(self, batch, logs):
        if self.model.updates == self.update:
            raise RuntimeError("boom")

    def on_epoch_end(self, epoch, logs):
        if epoch == self.epoch:
            raise RuntimeError("boom")


def fit(epochs, others=(), failures=(), total_updates=1000, tape=True, **periods):
    """Epochs of 4 updates, each a second and 4 steps, from 100 steps on."""
    clock, checkpoints = FakeClock(), FakeCheckpoints()
    checkpoints.failures = list(failures)
    checkpoint = Checkpoint(checkpoints, minutes=clock.minutes, **periods)
    limits = Limits(total_updates=total_updates, minutes=clock.minutes)
    last = Tape(checkpoints)
    fitted = FakeFit([checkpoint, *others, limits, last], clock)
    checkpoints.model = fitted.agent
    try:
        fitted.run(epochs)
    except RuntimeError:
        checkpoint.rescue()
    checkpoints.tape = last.at_save
    return checkpoints


def test_without_periods_the_end_alone_is_saved_with_its_epochs_end():
    assert fit(3).saved == [(12, 3)]


def test_a_broken_off_epoch_is_saved_at_the_end():
    assert fit(3, total_updates=6).saved == [(6, 1)]


def test_updates_and_minutes_decide_whichever_is_first():
    # A save is made before the next update begins.
    assert fit(3, period_updates=3).saved == [(3, 0), (6, 1), (9, 2), (12, 2), (12, 3)]
    assert fit(3, period_minutes=2.9 / 60).saved == [(3, 0), (6, 1), (9, 2), (12, 2), (12, 3)]
    assert fit(3, period_updates=3, period_minutes=1.9 / 60).saved == [
        (2, 0),
        (4, 0),
        (6, 1),
        (8, 1),
        (10, 2),
        (12, 2),
        (12, 3),
    ]
    assert fit(3, period_updates=10**6, period_minutes=10**6).saved == [(12, 3)]


def test_a_save_comes_when_all_are_done_with_the_update_and_none_with_the_epochs_end():
    checkpoints = fit(2, period_updates=1)
    assert [updates for updates, _ in checkpoints.saved] == [1, 2, 3, 4, 5, 6, 7, 8, 8]
    assert checkpoints.tape == [*[("update", k) for k in range(1, 9)], ("epoch", 1)]


def test_an_error_inside_an_epoch_saves_what_there_is_then():
    assert fit(3, others=[Raising(update=6)]).saved == [(6, 1)]


def test_an_error_in_an_epochs_end_saves_it_as_not_yet_over():
    assert fit(3, others=[Raising(epoch=1)]).saved == [(8, 1)]


@pytest.mark.case("B108")
def test_a_full_disk_ends_no_training_and_is_told_each_time(caplog):
    checkpoints = fit(16, failures=[True, False, True, False], period_updates=2)
    assert caplog.text.count("No space left on device; training goes on, the next try is in a minute") == 2
    # Tried at update 2, a minute of 60 updates later, and 2 updates after that; then at the end.
    assert checkpoints.saved == [(62, 15), (64, 16)]


def test_a_save_that_fails_at_the_end_is_an_error():
    with pytest.raises(OSError, match="No space left"):
        fit(1, failures=[True])


def test_a_period_begins_anew_with_the_save_at_the_end_of_a_part():
    clock, checkpoints = FakeClock(), FakeCheckpoints()
    checkpoint = Checkpoint(checkpoints, minutes=clock.minutes, period_updates=3)
    fitted = FakeFit([checkpoint], clock)
    checkpoints.model = fitted.agent
    fitted.run(1)
    fitted.run(2, initial_epoch=1)
    assert checkpoints.saved == [(3, 0), (4, 1), (7, 1), (8, 2)]


def judge(folder, scores, period_epochs=1):
    clock = FakeClock()
    evaluation = FakeEvaluation(scores, period_epochs)
    metrics = Metrics(evaluation, minutes=clock.minutes, clock=clock)
    fitted = FakeFit([], clock)
    counters = lambda: {"steps": fitted.agent.sequence.steps}  # noqa: E731
    best = BestCheckpoint(folder / "best", metrics, counters=counters)
    for each in (metrics, evaluation, best):
        each.set_model(fitted.agent)
        fitted.callbacks.append(each)
    fitted.run(3)
    return best


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
        saves.append(str(counters["steps"]))
        return save(path, agent, counters)

    monkeypatch.setattr(module, "save_agent", record)
    best_checkpoint = judge(tmp_path, scores, period)
    assert saves == best
    finite = max(score for score in scores if score > float("-inf"))
    assert best_checkpoint.best_value == finite
    assert check_checkpoint(tmp_path / "best")["counters"]["eval_return_mean"] == finite


@pytest.mark.case("B113")
def test_a_continued_run_knows_its_best(tmp_path):
    judge(tmp_path, (3.0, 1.0, 2.0))
    before = (tmp_path / "best" / "manifest.json").read_bytes()
    judge(tmp_path, (2.5, 2.9, 3.0))
    assert (tmp_path / "best" / "manifest.json").read_bytes() == before
    assert judge(tmp_path, (2.5, 3.5, 3.0)).best_value == 3.5
    assert check_checkpoint(tmp_path / "best")["counters"] == {"steps": 132, "epochs": 2, "eval_return_mean": 3.5}


def test_a_broken_best_is_told_and_replaced(tmp_path, caplog):
    judge(tmp_path, (3.0, 1.0, 2.0))
    (tmp_path / "best" / "agent.keras").write_text("other")
    assert judge(tmp_path, (1.0, 2.0, 0.0)).best_value == 2.0
    assert "the best agent so far can't be used and will be replaced: agent.keras isn't" in caplog.text
    assert check_checkpoint(tmp_path / "best")["counters"]["eval_return_mean"] == 2.0
    assert os.listdir(tmp_path) == ["best"]


def test_a_best_that_cannot_be_saved_is_told_and_the_next_better_one_is_tried(tmp_path, monkeypatch, caplog):
    from dqn_lab.callbacks import checkpoint as module

    save, failures = module.save_agent, [True]

    def full(*arguments):
        if failures:
            failures.pop()
            raise OSError(errno.ENOSPC, "No space left on device")
        return save(*arguments)

    monkeypatch.setattr(module, "save_agent", full)
    assert judge(tmp_path, (3.0, 2.0, 1.0)).best_value == 2.0
    assert "the best agent could not be saved: [Errno 28] No space left on device; the next better one" in caplog.text
