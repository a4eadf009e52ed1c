"""Runs that are killed and continued end bit for bit as those that were left alone."""

import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import killed_run
import numpy as np
import pytest
import toy_rundef
from run_states import everything, names_differing, restored, stored_rows

from dqn_lab import cli, continuation
from dqn_lab.callbacks.limits import Limits
from dqn_lab.checkpoint import check_checkpoint, complete_checkpoints

TOY = Path(toy_rundef.__file__)
UPDATE, JUDGED = "dqn_lab.callbacks.limits:Limits.on_train_batch_end", "dqn_lab.callbacks.metrics:Metrics.row"
HALF_SAVED = "dqn_lab.run_checkpoints:write_state"
SMALL = {
    "replay_min_steps": 60,
    "replay_capacity_steps": 160,  # overwritten before the end
    "updates_per_epoch": 7,
    "target_period_updates": 5,
    "batch_size": 8,
    "epsilon_steps": 100,
    "initial_states": 4,
    "initial_states_dir": "none",
    "log_period_updates": 3,
    "checkpoint_period_steps": 20,
}
ATARI = {"evaluation_max_steps": 40, "replay_capacity_steps": 120, "checkpoint_period_steps": 44}
OVERLAP = {"feeding": "overlap", "num_envs": 4, "train_period_steps": 4}
UPDATES = 26

# Worlds of real kills: the rundef, its settings, at which call of what each process in turn is killed, and what it said
# where it went on.
KILLED = {
    # Before the first save; inside an epoch.
    "toy": (TOY, OVERLAP, [(UPDATE, 3, ""), (UPDATE, 16, "it begins anew")]),
    # Saved when an epoch's updates were made: inside the next epoch; when the end was made up for and its row wasn't
    # written; in the midst of a save.
    "breakout": (
        "breakout_v0",
        ATARI | {"checkpoint_period_steps": 28},
        [
            (UPDATE, 12, ""),
            (JUDGED, 1, "continues at 88 steps, 7 updates, exactly"),
            (HALF_SAVED, 2, "continues at 88 steps, 7 updates, exactly"),
        ],
    ),
}
CLASSIC = {
    "catch": {},
    "cartpole_v0": OVERLAP | {"precision": "mixed_float16"},
    "cartpole_v1": {"n_step": 3, "precision": "mixed_bfloat16"},
    "acrobot_v1": {"optimizer": "rmsprop_centered", "keep_weights": "all", "evaluation_max_steps": 60},
    "mountaincar_v0": OVERLAP | {"dueling": True, "evaluation_max_steps": 60, "evaluation_period_epochs": 2},
}

QUICK = ("catch", "mountaincar_v0")  # in each feeding


def words(rundef, directory, settings, updates=UPDATES):
    given = SMALL | settings
    if "evaluation_max_steps" in given:
        given["evaluation_episodes"] = "inf"
    return [
        str(rundef),
        f"--run-dir={directory}",
        f"--updates={updates}",
        *(f"--set={name}={value}" for name, value in given.items()),
    ]


def train(rundef, directory, settings, updates=UPDATES):
    return cli.train(words(rundef, directory, settings, updates))


def train_killed(rundef, directory, settings, kills):
    """Trains until it was killed each time; returns what each process said."""
    said = []
    for moment, number, _ in kills:
        process = killed_run.begin(moment, number, words(rundef, directory, settings))
        said.append(process.communicate()[0])
        assert process.returncode == -signal.SIGKILL, said
    return said


def snapshots(monkeypatch, directory, updates):
    """Has a run's directory copied as a kill right behind these updates would leave it; returns the copies' places."""
    places = {update: directory.with_name(f"{directory.name}-{update}") for update in updates}
    notice = Limits.on_train_batch_end

    def notice_and_copy(limits, batch, logs=None):
        notice(limits, batch, logs)
        if limits.model.updates in places:
            shutil.copytree(directory, places[limits.model.updates])

    monkeypatch.setattr(Limits, "on_train_batch_end", notice_and_copy)
    return places.values()


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The processes that are killed, beside the tests: name -> future of (directory, what was said)."""
    folder = tmp_path_factory.mktemp("killed")
    with ThreadPoolExecutor(2) as pool:
        yield {
            name: pool.submit(lambda *world: (world[1], train_killed(*world)), rundef, folder / name, settings, kills)
            for name, (rundef, settings, kills) in KILLED.items()
        }


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A run of the toy, and what a kill behind its update 17 leaves: two checkpoints."""
    folder = tmp_path_factory.mktemp("toy") / "run"
    with pytest.MonkeyPatch.context() as monkeypatch:
        (snapshot,) = snapshots(monkeypatch, folder, [17])
        assert train(TOY, folder, {}) == 0
    assert [int(one.name) for one in complete_checkpoints(snapshot / "checkpoints")] == [100, 120]
    return snapshot, everything(folder)


@pytest.fixture
def broken_off(toy, tmp_path):
    return Path(shutil.copytree(toy[0], tmp_path / "run"))


@pytest.mark.parametrize(
    "rundef", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in CLASSIC]
)
def test_a_classic_control_run_goes_on_exactly(rundef, tmp_path, monkeypatch):
    settings = {"evaluation_episodes": 2} | CLASSIC[rundef]
    (copy,) = snapshots(monkeypatch, tmp_path / "run", [18])
    assert train(rundef, tmp_path / "run", settings) == 0
    monkeypatch.undo()
    assert train(rundef, copy, settings) == 0
    assert names_differing(everything(tmp_path / "run"), everything(copy)) == []


@pytest.mark.parametrize("settings", [{}, OVERLAP], ids=["alternate", "overlap"])
def test_a_run_that_was_ended_inside_an_epoch_is_extended_exactly(settings, tmp_path):
    assert train(TOY, tmp_path / "whole", settings) == 0
    for updates in (17, UPDATES):
        assert train(TOY, tmp_path / "parts", settings, updates) == 0
    assert names_differing(everything(tmp_path / "whole"), everything(tmp_path / "parts")) == []


FLIPPED = ["agent.keras", "state.json", "state.npz", "manifest.json"]


def file_of(checkpoint, name):
    if name != "replay":
        return checkpoint / name
    return checkpoint.parents[1] / "replay" / check_checkpoint(checkpoint)["replay"][-1]["file"]


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def truncate(file):
    file.write_bytes(file.read_bytes()[:-5])


BROKEN = [(flip, "replay"), (Path.unlink, "replay")]  # the others: tests/test_run_checkpoints.py
SELDOM = [(flip, each) for each in FLIPPED] + [(truncate, "agent.keras"), (truncate, "replay")]
BROKEN += [pytest.param(*each, marks=pytest.mark.slow) for each in [*SELDOM, (Path.unlink, "state.npz")]]


@pytest.mark.parametrize(("damage", "name"), BROKEN)
def test_a_broken_checkpoint_is_put_aside_and_the_one_before_goes_on_to_the_same_end(
    damage, name, broken_off, toy, capsys
):
    newest = broken_off / "checkpoints" / "120"
    file = file_of(newest, name)
    damage(file)
    assert train(TOY, broken_off, {}) == 0
    said = capsys.readouterr().out
    (line,) = [one for one in said.splitlines() if "can't be used" in one]
    assert str(newest.with_name("120.broken")) in line and file.name in line
    assert "continues at 100 steps" in said
    assert names_differing(toy[1], everything(broken_off)) == []


def test_where_the_only_checkpoint_is_broken_the_run_is_not_begun_anew(broken_off, capsys):
    shutil.rmtree(broken_off / "checkpoints" / "100")
    flip(broken_off / "checkpoints" / "120" / "state.npz")
    before = sorted(broken_off.rglob("*"))
    assert train(TOY, broken_off, {}) == 1
    assert "state.npz" in capsys.readouterr().err.splitlines()[-1]
    assert train(TOY, broken_off, {}) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "no checkpoint of this run can be used; begin anew with --fresh" in error
    assert sorted(broken_off.rglob("*")) == before


def test_a_machine_that_is_another_is_told(broken_off, capsys, monkeypatch):
    here = continuation.describe_machine()
    monkeypatch.setattr("dqn_lab.continuation.describe_machine", lambda: here | {"keras": "9.9", "cores": 99})
    assert train(TOY, broken_off, {}) == 0
    changes = f"keras {here['keras']} -> 9.9, cores {here['cores']} -> 99"
    assert f"continues at 120 steps, 15 updates, not exact: {changes}\n" in capsys.readouterr().out


FORGETFUL = """
import math
import gymnasium, numpy as np
from dqn_lab.assembly import Assembly
from dqn_lab.models.networks import mlp


class Forgetful(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 9
        return self.observation_space.sample() * 0, {}

    def step(self, action):
        self.left -= 1
        return np.full(2, self.left / 9, np.float32), float(action), not self.left, False, {}


def run(*, seed=0, protocol="classic-control", num_envs=2, replay_capacity_steps=400, replay_min_steps=60,
        updates_per_epoch=7, train_period_steps=4, target_period_updates=5, batch_size=8, learning_rate=1e-3,
        epsilon_start=1.0, epsilon_end=0.1, epsilon_steps=100, evaluation_period_epochs=0, initial_states=0,
        initial_states_dir: str | None = None, log_period_updates=3, checkpoint_period_steps=20):
    assembly = Assembly(locals())
    sequence = assembly.environment_sequence(Forgetful)
    return assembly.run(sequence, mlp(sequence.state_shape, sequence.num_actions, hidden=(8,), seed=seed))
"""


def test_an_environment_without_a_state_keeps_what_was_stored_and_begins_its_episodes_anew(
    tmp_path, monkeypatch, capsys
):
    rundef, settings = tmp_path / "forgetful.py", {"replay_capacity_steps": 400}
    rundef.write_text(FORGETFUL)
    (copy,) = snapshots(monkeypatch, tmp_path / "run", [17])
    assert train(rundef, tmp_path / "run", settings) == 0
    monkeypatch.undo()
    reason = "not exact: Forgetful has no get_state and set_state, episodes begin anew"
    assert f"the same command continues the run ({reason})" in capsys.readouterr().out
    saved, before = stored_rows(restored(copy).sequence), restored(copy)
    assert (before.agent.updates, before.sequence.steps) == (15, 120)
    assert train(rundef, copy, settings) == 0
    assert "continues at 120 steps, 15 updates, not exact: episodes begin anew\n" in capsys.readouterr().out
    after = restored(copy)
    assert (after.agent.updates, after.sequence.steps) == (UPDATES, 60 + 4 * UPDATES)
    now = stored_rows(after.sequence)
    count = len(saved["age"]) - after.sequence.num_envs  # a lane's newest row had no action yet
    for name in ("action", "reward", "age", "observation"):
        for lane in range(2):
            length = count // 2
            then, there = (rows[name][rows["lane"] == lane][:length] for rows in (saved, now))
            assert np.array_equal(then, there), (name, lane)


@pytest.mark.posix
@pytest.mark.parametrize("world", KILLED)
def test_a_run_that_was_killed_ends_as_if_it_had_been_left_alone(world, killed, tmp_path):
    rundef, settings, kills = KILLED[world]
    assert train(rundef, tmp_path / "whole", settings) == 0
    directory, said = killed[world].result()
    assert train(rundef, directory, settings) == 0
    assert [where in one for one, (_, _, where) in zip(said, kills, strict=True)] == [True] * len(kills), said
    assert names_differing(everything(tmp_path / "whole"), everything(directory)) == []


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.parametrize("feeding", [{}, OVERLAP])
@pytest.mark.parametrize("rundef", ["breakout_v0", "atari_dqn", *CLASSIC])
def test_every_rundef_is_killed_and_goes_on_in_both_feedings(rundef, feeding, tmp_path):
    settings = {"evaluation_max_steps": 60} | feeding
    settings |= {"protocol": "dopamine", "double": True, "n_step": 3} if rundef == "atari_dqn" else {}
    assert train(rundef, tmp_path / "whole", settings) == 0
    said = train_killed(rundef, tmp_path / "killed", settings, [(UPDATE, 17, ""), (UPDATE, 4, "")])
    assert "continues at" in said[1]
    assert train(rundef, tmp_path / "killed", settings) == 0
    assert names_differing(everything(tmp_path / "whole"), everything(tmp_path / "killed")) == []


@pytest.mark.posix
def test_another_runs_checkpoint_is_named_and_left_out(broken_off, toy, killed, capsys):
    directory, _ = killed["breakout"].result()
    foreign = complete_checkpoints(directory / "checkpoints")[-1]
    shutil.copytree(foreign, broken_off / "checkpoints" / "999")
    assert train(TOY, broken_off, {}) == 0
    said = capsys.readouterr().out
    (line,) = [one for one in said.splitlines() if "can't be used" in one]
    assert "999.broken" in line and "is another run's: rundef breakout_v0 -> toy_rundef" in line
    assert names_differing(toy[1], everything(broken_off)) == []
