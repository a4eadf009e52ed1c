"""A run's checkpoints: what is refused and skipped, what fails without losing anything, what is put back."""

import errno
import json
import os
import shutil

import keras
import numpy as np
import pytest
import toy_rundef

from dqn_lab import checkpoint as checkpoint_module
from dqn_lab import run_checkpoints as module
from dqn_lab.checkpoint import check_checkpoint, complete_checkpoints, sealed
from dqn_lab.environments.catch import Catch


def train(folder, *callbacks, updates=25, every=20, **arguments):
    run = toy_rundef.run(checkpoint_period_steps=every, evaluation_period_epochs=0, **arguments)
    run.train(folder, updates=updates, callbacks=callbacks, rundef="toy")
    return run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of 25 updates with checkpoints at 20 and 25: 2 epochs and a half."""
    folder = tmp_path_factory.mktemp("runs") / "toy"
    train(folder)
    return folder


@pytest.fixture
def used(trained, tmp_path):
    """A copy of it, which may be damaged."""
    return shutil.copytree(trained, tmp_path / "toy")


def names(folder):
    return sorted(os.listdir(folder / "checkpoints"))


def test_the_newest_stay_and_share_the_replays_files(trained):
    assert names(trained) == ["120", "140"]  # 40 of the fill + 4 an update
    named = [
        {one["file"] for one in check_checkpoint(trained / "checkpoints" / name)["replay"]} for name in names(trained)
    ]
    assert set(os.listdir(trained / "replay")) == named[0] | named[1]
    manifest = check_checkpoint(trained / "checkpoints" / "140")
    assert set(manifest["files"]) == {"agent.keras", "state.json", "state.npz"}
    assert manifest["counters"]["updates"] == 25
    assert {"keras", "cores"} <= set(manifest["machine"])
    assert manifest["settings"]["learning_rate"] == 1e-3


@pytest.mark.case("B106")
def test_a_continued_run_has_its_replay_and_fills_none(used, capsys):
    saved = train(used)  # finished: nothing is restored
    run = train(used, updates=26)
    ring = run.sequence.replay.ring
    # 144 steps, and a row for each episode's end and each lane's newest.
    assert len(ring) == 144 + run.sequence.episodes + 2
    ring.check_valid()
    assert run.agent.updates == 26
    assert saved.agent.updates == 0
    out = capsys.readouterr().out
    assert "filling replay" not in out
    assert "this run is finished: 25 updates, 140 steps, " in out
    assert "continues at 140 steps, 25 updates, exactly\n" in out


@pytest.mark.case("B104")
def test_epsilon_goes_on_where_it_was(tmp_path):
    class Epsilons(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.seen = []

        def on_train_batch_begin(self, batch, logs=None):
            self.seen.append(self.model.sequence.epsilon)

    first, second, whole = Epsilons(), Epsilons(), Epsilons()
    train(tmp_path / "a", first, updates=7, epsilon_steps=200)
    train(tmp_path / "a", second, updates=14, epsilon_steps=200)
    train(tmp_path / "b", whole, updates=14, epsilon_steps=200)
    assert first.seen + second.seen == whole.seen
    assert second.seen[0] == pytest.approx(1.0 - 0.9 * 68 / 200, abs=1e-6)  # 40 + 7 x 4 steps


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_checkpoint_that_lost_its_manifest_is_named_and_not_begun_anew_over(used, capsys):
    for name in names(used):
        (used / "checkpoints" / name / "manifest.json").unlink()
    with pytest.raises(ValueError, match="no checkpoint of this run can be used.*a checkpoint has a manifest.json"):
        train(used, updates=30)
    assert names(used) == ["120", "140"]


@pytest.mark.parametrize("name", ["agent.keras", "state.json", "state.npz", "manifest.json"])
def test_a_damaged_checkpoint_is_named_put_aside_and_the_one_before_is_used(used, name, capsys):
    damage(used / "checkpoints" / "140" / name)
    run = train(used, updates=30)
    out = capsys.readouterr().out
    assert f"warning: a checkpoint can't be used and is now {used / 'checkpoints' / '140.broken'}: " in out
    assert "continues at 120 steps, 20 updates, exactly" in out
    assert run.agent.updates == 30
    assert names(used) == ["140", "140.broken", "160"]


def test_where_none_is_whole_the_run_is_refused_and_nothing_changes(used):
    for name in names(used):
        (used / "checkpoints" / name / "agent.keras").unlink()
    before = (used / "progress.csv").read_bytes()
    with pytest.raises(
        ValueError, match=r"no checkpoint of this run can be used; begin anew with --fresh .*agent.keras isn't"
    ):
        train(used, updates=30)
    assert names(used) == ["120", "140"]
    assert (used / "progress.csv").read_bytes() == before
    with pytest.raises(ValueError, match="no checkpoint of this run can be used"):
        train(used, updates=30)


def test_another_runs_checkpoint_is_named_and_skipped(used, tmp_path, capsys):
    train(tmp_path / "other", seed=5, updates=40)
    shutil.copytree(tmp_path / "other" / "checkpoints" / "200", used / "checkpoints" / "200")
    train(used, updates=30)
    out = capsys.readouterr().out
    assert "200.broken: " in out
    assert "is another run's: seed 5 -> 0\n" in out
    assert "continues at 140 steps" in out


def test_an_unknown_format_is_refused_by_its_number(used, capsys):
    for name in names(used):
        manifest = used / "checkpoints" / name / "manifest.json"
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format": 9}))
    with pytest.raises(ValueError, match=r"reads checkpoints of format 2. Received: \S+140 of format 9$"):
        train(used, updates=30)
    assert names(used) == ["120", "140"]  # a later version can go on


def test_another_machine_is_told(used, capsys):
    manifest = used / "checkpoints" / "140" / "manifest.json"
    told = json.loads(manifest.read_text())
    told["machine"] |= {"keras": "3.0.0", "cores": 64}
    manifest.write_text(json.dumps(sealed(told)))
    train(used, updates=26)
    assert f"not exact: keras 3.0.0 -> {keras.__version__}, cores 64 -> " in capsys.readouterr().out


def test_what_a_killed_save_left_is_taken_away(used):
    (used / "checkpoints" / ".144.part").mkdir()
    (used / "checkpoints" / ".144.part" / "agent.keras").write_bytes(b"half")
    (used / "replay" / "000099.npz").write_bytes(b"half")
    (used / "checkpoints" / "140").rename(used / "checkpoints" / ".140.old")  # a kill between two renames
    run = train(used, updates=26)
    assert names(used) == ["140", "144"]
    assert run.agent.updates == 26
    assert (used / "replay" / "000099.npz") not in list((used / "replay").iterdir())


@pytest.mark.case("B108")
def test_a_full_disk_keeps_the_last_good_one_and_the_run_goes_on(tmp_path, monkeypatch, capsys):
    write = checkpoint_module.Path.write_text
    failing = []

    def full(self, *arguments, **named):
        if self.name == "manifest.json" and failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, *arguments, **named)

    class Fills(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            failing[:] = [True] if self.model.updates == 12 else failing

    monkeypatch.setattr(checkpoint_module.Path, "write_text", full)
    with pytest.raises(
        OSError, match=r"could not be saved at 140 steps: .*No space left.*last good checkpoint is \S+80$"
    ):
        train(tmp_path / "toy", Fills())
    out = capsys.readouterr().out
    assert out.count("training goes on, the next try is in a minute") == 1
    assert "could not be saved at 100 steps: [Errno 28] No space left on device; the last good checkpoint is " in out
    assert names(tmp_path / "toy") == ["60", "80"]
    failing.clear()
    run = train(tmp_path / "toy")
    assert run.agent.updates == 25
    whole = train(tmp_path / "whole")
    for mine, its in zip(run.agent.weights, whole.agent.weights, strict=True):
        np.testing.assert_array_equal(mine.numpy(), its.numpy())


def test_a_run_without_a_checkpoint_begins_anew(tmp_path, capsys):
    class Killed(BaseException):
        pass

    class Kills(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if self.model.updates == 15:
                raise Killed

    run = toy_rundef.run(evaluation_period_epochs=0)
    folder = tmp_path / "toy"
    with pytest.raises(Killed), pytest.MonkeyPatch.context() as patch:
        patch.setattr("dqn_lab.training.Training.rescue", lambda *_, **__: None)  # as if by kill -9
        run.train(folder, updates=25, callbacks=[Kills()], rundef="toy")
    assert complete_checkpoints(folder / "checkpoints") == []
    assert (folder / "progress.csv").read_text().count("\n") == 2
    train(folder)
    assert "the run that is here has no checkpoint yet: it begins anew\n" in capsys.readouterr().out
    assert (folder / "progress.csv").read_text().count("\n") == 3


@pytest.mark.parametrize(
    ("learning_rate", "text"),
    [
        (1e38, "The loss of update 15 is not finite; the update was not made. It was due at step 100."),
        (float("nan"), r"action values that are numbers. Received: NaN at step 9\d, before update 15"),
    ],
)
def test_a_run_that_is_not_finite_saves_nothing_more(tmp_path, capsys, learning_rate, text):
    class Diverges(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if self.model.updates == 13:
                self.model.optimizer.learning_rate.assign(learning_rate)

    with pytest.raises(FloatingPointError, match=text):
        train(tmp_path / "toy", Diverges())
    assert names(tmp_path / "toy") == ["60", "80"]
    assert (
        "nothing is saved of a run whose figures are not finite; the last good checkpoint is "
        in capsys.readouterr().out
    )


def test_a_disk_that_is_too_small_is_refused_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr("dqn_lab.disk.shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(OSError, match=r"the run's files need up to about .* KiB are free: name another disk"):
        train(tmp_path / "toy")
    assert os.listdir(tmp_path) == []


class Untold(Catch):
    """An environment whose state can't be told, or can't be set."""

    fails = ""

    def get_state(self):
        if self.fails == "get":
            raise RuntimeError("no state for you")
        return super().get_state() | ({"x": object()} if self.fails == "object" else {})

    def set_state(self, state):
        if self.fails == "set":
            raise RuntimeError("cannot set")
        super().set_state(state)


@pytest.mark.parametrize("fails", ["get", "object", "set"])
def test_an_environment_whose_state_fails_costs_no_learning(tmp_path, monkeypatch, capsys, fails):
    monkeypatch.setattr("dqn_lab.environments.catch.Catch", Untold)
    monkeypatch.setattr(Untold, "fails", fails)
    train(tmp_path / "toy", every=None)
    run = train(tmp_path / "toy", updates=30, every=None)
    assert run.agent.updates == 30
    out = capsys.readouterr().out
    if fails == "set":
        assert "the environments' state can't be set (RuntimeError: cannot set): new episodes begin" in out
    else:
        assert "not exact: the environments' get_state failed (" in out
        assert "continues at 140 steps, 25 updates, not exact: episodes begin anew" in out


def test_a_checkpoint_that_cannot_be_read_is_put_aside_like_a_damaged_one(used, monkeypatch, capsys):
    check = module.check_checkpoint

    def unreadable(path):
        if path.name == "140":
            raise PermissionError(errno.EACCES, "Permission denied", str(path / "state.json"))
        return check(path)

    monkeypatch.setattr(module, "check_checkpoint", unreadable)
    train(used, updates=26)
    out = capsys.readouterr().out
    assert "140.broken: [Errno 13] Permission denied: " in out
    assert "continues at 120 steps" in out


def test_a_total_that_an_older_checkpoint_has_reached_costs_no_update(used):
    damage(used / "checkpoints" / "140" / "agent.keras")
    manifest = used / "checkpoints" / "140" / "manifest.json"
    told = json.loads(manifest.read_text())
    told["counters"]["epochs"] = 1  # as if the end of its epoch were still to come
    manifest.write_text(json.dumps(sealed(told)))
    run = train(used, updates=20)
    assert run.agent.updates == 20
    assert names(used) == ["120", "140.broken"]


def test_a_csv_that_was_emptied_gets_its_header_again(used):
    (used / "progress.csv").write_text("")
    train(used, updates=30)
    rows = (used / "progress.csv").read_text().splitlines()
    assert rows[0].startswith("steps,frames,updates,")
    assert len(rows) == 2


def test_saves_that_fail_again_and_again_leave_nothing_behind(tmp_path, monkeypatch):
    files = []

    class Fails(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            files.append(len(list((tmp_path / "toy" / "replay").glob("*"))))
            if self.model.updates == 12:
                monkeypatch.setattr(module, "write_checkpoint", full)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("dqn_lab.callbacks.checkpoint._RETRY_MINUTES", 0.0)
    with pytest.raises(module.UnsavedError, match="No space left"):
        train(tmp_path / "toy", Fails(), updates=40)
    assert max(files) <= 2
    assert len(list((tmp_path / "toy" / "replay").iterdir())) <= 2


def test_what_a_broken_checkpoint_needs_of_the_replay_is_kept_for_who_mends_it(used):
    file = used / "checkpoints" / "140" / "state.npz"
    content = file.read_bytes()
    damage(file)
    needed = {one["file"] for one in check_replay(used, "140")}
    train(used, updates=30)
    assert needed <= set(os.listdir(used / "replay"))
    (used / "checkpoints" / "140.broken" / "state.npz").write_bytes(content)
    (used / "checkpoints" / "160").rename(used.parent / "160")
    (used / "checkpoints" / "140").rename(used.parent / "140")
    (used / "checkpoints" / "140.broken").rename(used / "checkpoints" / "140")
    assert train(used, updates=30).agent.updates == 30


def check_replay(folder, name):
    return json.loads((folder / "checkpoints" / name / "manifest.json").read_text())["replay"]


@pytest.mark.case("B108")
def test_the_next_start_says_what_a_save_that_was_broken_off_left(used, capsys):
    (used / "checkpoints" / ".144.part").mkdir()
    (used / "checkpoints" / ".144.part" / "agent.keras").write_bytes(b"half")
    train(used, updates=26)
    out = capsys.readouterr().out
    assert "removed what a save that was broken off has left: .144.part\n" in out
    assert "continues at 140 steps" in out
    assert names(used) == ["140", "144"]


def test_a_run_goes_on_feeding_as_it_began_whatever_would_be_chosen_now(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("dqn_lab.sequences.turns.usable_cores", lambda: 2)
    train(tmp_path / "toy", num_envs=4)
    monkeypatch.setattr("dqn_lab.sequences.turns.usable_cores", lambda: 8)
    run = train(tmp_path / "toy", num_envs=4, updates=30)
    assert run.sequence.feeding == "alternate"
    assert "feeding: alternate (as the run began)\n" in capsys.readouterr().out
    assert json.loads((tmp_path / "toy" / "config.json").read_text())["feeding"] == "alternate"


def test_a_reward_that_is_not_finite_saves_nothing_more(tmp_path, monkeypatch, capsys):
    class Poisoned(Catch):
        def step(self, action):
            observation, reward, *rest = super().step(action)
            poisons.append(0)
            return observation, float("nan") if len(poisons) == 90 else reward, *rest

    poisons = []
    monkeypatch.setattr("dqn_lab.environments.catch.Catch", Poisoned)
    with pytest.raises(
        FloatingPointError, match=r"a reward that is not finite at step \d+, in lane \d, before update 1\d"
    ):
        train(tmp_path / "toy")
    assert names(tmp_path / "toy") == ["60", "80"]
    assert "the last good checkpoint is " in capsys.readouterr().out


def test_curves_that_cannot_be_cut_put_no_good_checkpoint_aside(used, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied", "progress.csv")

    monkeypatch.setattr(module.curves, "cut", refuse)
    with pytest.raises(PermissionError, match="progress.csv"):
        train(used, updates=26)
    assert names(used) == ["120", "140"]
