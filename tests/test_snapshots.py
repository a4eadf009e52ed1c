"""The saves of a run: found by name and by steps, listed, and loaded; weights alone go into the run's network."""

import logging
import shutil

import numpy as np
import pytest
import toy_rundef

import dqn_lab
from dqn_lab.checkpoint import read_agent
from dqn_lab.snapshots import find_snapshot, kept_snapshots, load_agent, load_snapshot


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Evaluated after 80, 120 and 160 steps; checkpoints after 120 and 164."""
    folder = tmp_path_factory.mktemp("runs") / "toy"
    for updates in (20, 31):
        toy_rundef.run(seed=3, total_updates=updates, keep_weights="all", keep=2, checkpoint_period_steps=None).train(
            folder, rundef="toy"
        )
    return folder


@pytest.fixture
def copied(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def weights(agent):
    return np.concatenate([each.ravel() for each in agent.network.get_weights()])


def test_what_was_kept_is_listed_by_its_steps(trained):
    kept = kept_snapshots(trained)
    best = find_snapshot(trained, "best")
    steps = [one.steps for one in kept]
    assert steps == [80, 120, 160, 164]
    assert [one.which for one in kept] == ["best" if one == best.steps else str(one) for one in steps]
    assert best.steps in (80, 120, 160)
    assert find_snapshot(trained, "latest").steps == 164


@pytest.mark.parametrize("which", [164, "164", "1_64"])
def test_a_checkpoint_is_loaded_by_its_steps(trained, which):
    agent, snapshot = load_snapshot(trained, which)
    assert (agent.updates, snapshot.path) == (31, trained / "checkpoints" / "164")
    assert np.array_equal(weights(agent), weights(load_agent(trained, "latest")))


def test_weights_that_were_kept_go_into_the_networks_of_a_checkpoint(trained):
    own = weights(read_agent(trained / "checkpoints" / "120"))
    shutil.copytree(trained, copy := trained.with_name("copy"))
    shutil.rmtree(copy / "checkpoints" / "120")
    agent, snapshot = load_snapshot(copy, 120)
    assert snapshot.path.name in ("120.weights.h5", "best")
    assert np.array_equal(weights(agent), own)
    early = weights(load_agent(copy, 80))
    assert not np.array_equal(early, own)
    shutil.rmtree(copy / "best")
    assert np.array_equal(weights(load_agent(copy, "80")), early)
    assert dqn_lab.load_agent is load_agent
    shutil.rmtree(copy / "checkpoints")
    with pytest.raises(ValueError, match="weights/ needs a checkpoint of the run .* Received: which=80"):
        load_agent(copy, 80)


def test_the_best_is_found_by_its_steps_too(copied):
    best = find_snapshot(copied, "best")
    for folder in ("weights", "checkpoints"):
        shutil.rmtree(copied / folder)
    assert find_snapshot(copied, best.steps) == best
    assert kept_snapshots(copied) == [best]


@pytest.mark.parametrize("content", [b"", b"no weights"])
def test_weights_that_are_none_are_told_in_a_line(copied, content):
    (copied / "weights" / "90.weights.h5").write_bytes(content)
    with pytest.raises(ValueError, match="^90.weights.h5 isn't weights of this run's network .* Received: 90$") as told:
        load_agent(copied, 90)
    assert "\n" not in str(told.value)


def test_steps_that_nothing_was_kept_at_are_answered_with_those_there_are(copied):
    with pytest.raises(ValueError, match="Nothing was kept at 5 steps; kept: 80, 120, 160, 164. Received: which='5'"):
        load_agent(copied, "5")
    for folder in ("weights", "checkpoints", "best"):
        shutil.rmtree(copied / folder)
    with pytest.raises(ValueError, match="Nothing was kept at 5 steps; kept: none. Received: which=5"):
        find_snapshot(copied, 5)


@pytest.mark.parametrize("which", ["newest", "", "-5", -5, True, None, "1.5", 80.0])
def test_what_names_no_save_is_refused(trained, which):
    with pytest.raises(ValueError, match="`which` must be best, latest or the steps of a kept save. Received: which="):
        load_agent(trained, which)


def test_files_of_other_names_are_no_saves(copied):
    for name in (".part.weights.h5", "x.weights.h5", "7.keras"):
        (copied / "weights" / name).write_bytes(b"")
    (copied / "checkpoints" / "170").mkdir()  # incomplete
    assert [one.steps for one in kept_snapshots(copied)] == [80, 120, 160, 164]


def test_where_the_newest_checkpoint_is_damaged_the_one_before_is_the_latest(copied, caplog):
    (copied / "checkpoints" / "164" / "agent.keras").write_bytes(b"")
    with caplog.at_level(logging.WARNING, logger="dqn_lab"):
        agent, snapshot = load_snapshot(copied, "latest")
    assert (agent.updates, snapshot.steps) == (20, 120)
    assert "an older checkpoint is loaded" in caplog.text
    with pytest.raises(ValueError, match="agent.keras isn't the file that was saved. Received: "):
        load_agent(copied, 164)
