"""Curves: cut back to a checkpoint, and gone on with as if nothing had happened."""

import copy
import os
import re

import keras
import pytest
import toy_rundef
from fake_run import EPOCH, FakeCallback, FakeClock, FakeEvaluation, FakeFit
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from dqn_lab.callbacks.limits import Limits
from dqn_lab.callbacks.metrics import Metrics
from dqn_lab.callbacks.progress import Progress
from dqn_lab.callbacks.progress_csv import ProgressCSV
from dqn_lab.callbacks.tensorboard import TensorBoardScalars
from dqn_lab.curves import cut, flush, positions
from dqn_lab.saved_state import read_state, write_state

EVENTS = "events.out.tfevents."
EPOCHS = 3
LOSSES = [float(number % 5) for number in range(EPOCHS * EPOCH)]
GAMES = {1: (8.0, 9), 2: (4.0, 5), 3: (1.0, 2), 11: (7.0, 3)}  # none in epoch 2
SAVES = [("update", number) for number in range(1, 12)] + [("end", number) for number in (4, 8, 12)]


class Killed(BaseException):
    """The process ends here."""


class Transcript:
    """Keeps what is said, without the time left, which each process guesses anew."""

    interactive = False

    def __init__(self):
        self.lines = []

    def say(self, text):
        self.lines.append(re.sub(r", [^,]* left$", "", text))

    def clear_status(self):
        pass


class Saver(FakeCallback):
    """Takes the state that a checkpoint has, and ends the process `lives` updates later.

    Args:
        process: whose state it is.
        at: ("update", k) before the update after k, ("end", k) before the end of the epoch of k updates, ("fit", k) at
            the end of the fit that makes k.
        lives: updates that are lost; None to go on to the end.
    """

    def __init__(self, process, at, lives):
        self.process, self.at, self.lives = process, at, lives

    def on_train_batch_begin(self, batch):
        made = self.model.updates
        if self.at == ("update", made):
            self.process.save()
        if self.lives is not None and made == self.at[1] + self.lives:
            raise Killed

    def on_epoch_end(self, epoch, logs):
        if self.at == ("end", self.model.updates) and self.model.sequence.epoch_complete:
            self.process.save()

    def on_train_end(self):
        if self.at == ("fit", self.model.updates):
            self.process.save()


class Process:
    """All objects of one process that trains in a directory.

    Args:
        folder: the run's directory.
        saved: the process that saved, whose state it goes on from; None to begin.
        at, lives: as `Saver`.
    """

    def __init__(self, folder, saved=None, at=("update", 0), lives=None, now=0.0, total_updates=1000):
        self.folder, self.clock, self.began, self.before = folder, FakeClock(), now, 0.0
        self.clock.now = now
        self.evaluation = FakeEvaluation([1.0, 2.0, 3.0], period_epochs=2)
        self.evaluation.clock = self.clock
        self.transcript = Transcript()
        metrics = Metrics(self.evaluation, minutes=self.minutes, clock=self.clock)
        limits = Limits(total_updates=total_updates, minutes=self.minutes)
        scalars = TensorBoardScalars(folder, metrics, log_period_updates=3, clock=self.clock)
        progress = Progress(self.transcript, metrics, limits, clock=self.clock)
        self.stateful = {"metrics": metrics, "scalars": scalars, "progress": progress, "evaluation": self.evaluation}
        writers = [ProgressCSV(folder / "progress.csv", metrics), scalars, progress]
        callbacks = [Saver(self, at, lives), metrics, self.evaluation, *writers, limits]
        self.epochs = 0
        if saved is not None:
            self.restore(saved)
        self.fit = FakeFit(callbacks, self.clock, GAMES, copy.deepcopy(saved and saved.agent))

    def minutes(self):
        return self.before + (self.clock.now - self.began) / 60

    def save(self):
        self.agent = copy.deepcopy(self.fit.agent)
        state = {name: each.get_state() for name, each in self.stateful.items()}
        write_state(self.folder, "state", state | {"minutes": self.minutes(), "curves": positions(self.folder)})
        self.said = len(self.transcript.lines)

    def restore(self, saved):
        state = read_state(self.folder, "state")
        self.before = state["minutes"]
        assert cut(self.folder, state["curves"]) == []
        for name, each in self.stateful.items():
            each.set_state(state[name])
        self.epochs = len([line for line in saved.transcript.lines[: saved.said] if "course" not in line])

    def train(self):
        epoch, made = divmod(self.fit.agent.updates, EPOCH)
        if epoch > self.epochs and not made:
            self.fit.finish_epoch(epoch - 1)
        if made:
            self.fit.run(epoch + 1, LOSSES, epoch, EPOCH - made)
            epoch += 1
        if epoch < EPOCHS:
            self.fit.run(EPOCHS, LOSSES, epoch)
        return self

    def die(self):
        """Ends in the midst of writing."""
        with pytest.raises(Killed):
            self.train()
        with open(self.folder / "progress.csv", "a", encoding="utf-8") as file:
            file.write("999,9")
        with open(max(self.folder.glob(f"{EVENTS}*"), key=os.path.getmtime), "ab") as file:
            file.write(b"\x18torn")
        return self


def read_points(folder):
    from tensorflow import make_ndarray

    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    return {
        tag: sorted((one.step, make_ndarray(one.tensor_proto).item()) for one in events.Tensors(tag))
        for tag in events.Tags()["tensors"]
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that nothing broke off."""
    return Process(tmp_path_factory.mktemp("whole")).train()


@pytest.mark.parametrize("at", SAVES, ids=lambda at: f"{at[0]}-{at[1]}")
def test_a_killed_run_is_continued_without_gap_or_overlap_and_with_the_same_rates(tmp_path, whole, at):
    lives = 2 if at[1] < 10 else None  # near the end of the run all that follows is lost
    saved = Process(tmp_path, at=at, lives=lives)
    if lives is None:
        saved.train()
    else:
        saved.die()
        Process(tmp_path, saved, at=at, lives=1, now=500.0).die()  # once more, before anything was saved
    last = Process(tmp_path, saved, now=77_777.0).train()
    assert (tmp_path / "progress.csv").read_bytes() == (whole.folder / "progress.csv").read_bytes()
    assert read_points(tmp_path) == read_points(whole.folder)
    assert saved.transcript.lines[: saved.said] + last.transcript.lines == whole.transcript.lines


def test_a_run_that_was_stopped_in_an_epoch_writes_the_same_rows_when_it_is_continued(tmp_path, whole):
    stopped = Process(tmp_path, at=("fit", 7), total_updates=7).train()
    Process(tmp_path, stopped, now=500.0).train()
    assert (tmp_path / "progress.csv").read_bytes() == (whole.folder / "progress.csv").read_bytes()
    points, expected = read_points(tmp_path), read_points(whole.folder)
    # Where it stopped is a point more, and the next one inside the epoch begins there.
    assert points["time/fps"] == sorted([*expected["time/fps"], (128, 4.0)])
    for tag in ("eval/mean_reward", "time/minutes", "rollout/ep_rew_mean"):
        assert points[tag] == expected[tag]


@pytest.mark.parametrize("first", [True, False])
def test_a_run_that_was_stopped_at_an_epochs_end_leaves_its_evaluation_out_of_the_rates(tmp_path, whole, first):
    stopped = Process(tmp_path, at=("fit", 4) if first else (), total_updates=4).train()
    if not first:  # after all callbacks
        stopped.save()
    Process(tmp_path, stopped, now=500.0).train()
    assert (tmp_path / "progress.csv").read_bytes() == (whole.folder / "progress.csv").read_bytes()
    assert read_points(tmp_path) == read_points(whole.folder)


def test_positions_are_of_the_curves_files_alone(tmp_path):
    (tmp_path / "progress.csv").write_bytes(b"12345")
    (tmp_path / f"{EVENTS}1.a").write_bytes(b"123")
    for name in ("log.txt", "other.csv", "my.events.out.tfevents.1"):
        (tmp_path / name).write_bytes(b"1")
    (tmp_path / f"{EVENTS}folder").mkdir()
    assert positions(tmp_path) == {"progress.csv": 5, f"{EVENTS}1.a": 3}


def test_flushing_writes_these_files_to_the_disk(tmp_path, monkeypatch):
    files = [tmp_path / "progress.csv", tmp_path / f"{EVENTS}1.a"]
    for file in files:
        file.write_bytes(b"1")
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.append(os.fstat(handle).st_ino))
    flush(tmp_path)
    assert flushed == [file.stat().st_ino for file in files]


def test_what_was_written_later_is_cut_and_nothing_else_is_touched(tmp_path):
    (tmp_path / "progress.csv").write_bytes(b"12345")
    (tmp_path / f"{EVENTS}1.a").write_bytes(b"123")
    told = positions(tmp_path)
    for name in ("progress.csv", f"{EVENTS}1.a", f"{EVENTS}2.b", "log.txt"):
        with open(tmp_path / name, "ab") as file:
            file.write(b"later")
    for _ in range(2):  # also when it was broken off and is done again
        assert cut(tmp_path, told | {"log.txt": 0}) == ["log.txt is missing: its part of the curves is lost"]
        there = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
        assert there == {"progress.csv": b"12345", f"{EVENTS}1.a": b"123", "log.txt": b"later"}


def test_a_table_that_was_not_there_is_removed(tmp_path):
    told = positions(tmp_path)
    (tmp_path / "progress.csv").write_bytes(b"12345")
    assert cut(tmp_path, told) == []
    assert list(tmp_path.iterdir()) == []


def test_what_is_missing_or_shorter_is_told_and_keeps_its_whole_rows(tmp_path):
    (tmp_path / "progress.csv").write_bytes(b"a,b\r\n1,2\r\n3")
    assert cut(tmp_path, {"progress.csv": 5_000, f"{EVENTS}1.a": 3}) == [
        "progress.csv has 11 of its 5,000 bytes: the end of its part of the curves is lost",
        f"{EVENTS}1.a is missing: its part of the curves is lost",
    ]
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("progress.csv", b"a,b\r\n1,2\r\n")]


class Stop(keras.callbacks.Callback):
    """Calls `take` before the update after `updates`, and raises."""

    def __init__(self, updates, take):
        super().__init__()
        self.updates, self.take = updates, take

    def on_train_batch_begin(self, batch, logs=None):
        if self.model.updates == self.updates:
            self.take()
            raise Killed


def make_callbacks(folder, evaluation):
    clock = FakeClock()
    metrics = Metrics(evaluation, minutes=clock.minutes, clock=clock)
    scalars = TensorBoardScalars(folder, metrics, log_period_updates=3, clock=clock)
    return [metrics, evaluation, scalars, ProgressCSV(folder / "progress.csv", metrics)]


def read_curves(folder):
    """All but what depends on the machine's speed: the last four columns."""
    rows = [line.split(",")[:-4] for line in (folder / "progress.csv").read_text().splitlines()]
    measured = ("time/acting", "time/environment", "time/sampling", "time/update")
    return rows, {tag: points for tag, points in read_points(folder).items() if tag not in measured}


def test_fits_by_keras_are_continued_inside_an_epoch_by_new_callbacks(tmp_path):
    folders = [tmp_path / "whole", tmp_path / "parts"]
    whole, parts, anew = [toy_rundef.run(evaluation_period_epochs=2) for _ in range(3)]
    arguments = {"verbose": 0, "log_period_updates": 3}
    for folder in folders:
        folder.mkdir()
    whole.agent.fit(whole.sequence, epochs=3, callbacks=make_callbacks(folders[0], whole.evaluation), **arguments)
    state, callbacks = {}, make_callbacks(folders[1], parts.evaluation)

    def take():
        state["callbacks"] = [each.get_state() for each in callbacks[:3]]
        state.update(agent=parts.agent.get_state(), curves=positions(folders[1]))
        write_state(tmp_path, "state", state)

    with pytest.raises(Killed):
        parts.agent.fit(parts.sequence, epochs=3, callbacks=[Stop(14, take), *callbacks], **arguments)
    state = read_state(tmp_path, "state")
    assert cut(folders[1], state["curves"]) == []
    parts.agent.set_state(state["agent"])
    callbacks = make_callbacks(folders[1], anew.evaluation)
    for each, its_state in zip(callbacks, state["callbacks"], strict=False):
        each.set_state(its_state)
    for part in ({"initial_epoch": 1, "epochs": 2, "epoch_updates": 6}, {"initial_epoch": 2, "epochs": 3}):
        parts.agent.fit(parts.sequence, callbacks=callbacks, **part, **arguments)
    assert read_curves(folders[1]) == read_curves(folders[0])
    assert anew.evaluation.result == whole.evaluation.result
