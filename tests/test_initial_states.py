"""The held-out initial states: how they are drawn, and the file that keeps them."""

import logging
import math

import numpy as np
import pytest
from scripted_twin import ScriptedTwin

from dqn_lab.initial_states import INITIAL_STATES_SEED, held_out, sample_initial_states

LIMITS = {"num_episodes": 3, "num_max_iter": math.inf}
FIELDS = ("state", "action", "reward", "terminal", "next_state")


def make_twin(key="scripted", num_envs=4, initial_decisions=3, length=9):
    def game(policy, number):
        return [7.0 if policy is None else -100.0] * length, False

    return ScriptedTwin(game, num_envs, initial_decisions, key)


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO, logger="dqn_lab")
    return caplog


def test_every_state_is_the_first_whole_one_after_a_reset_of_its_own():
    states = sample_initial_states(make_twin(), 10)
    restart, lane, decisions = states.state.T  # see ScriptedTwin
    assert len(states) == 10
    assert len(set(zip(restart, lane, strict=True))) == 10
    np.testing.assert_array_equal(decisions, 3)
    np.testing.assert_array_equal(states.next_state[:, 2], 4)


def test_only_the_first_reset_is_seeded():
    twin = make_twin()
    sample_initial_states(twin, 10, seed=5)
    assert twin.restarts == [5, None, None]


def test_states_are_drawn_by_random_play_and_seen_as_the_learner_sees_them():
    twin = make_twin(length=4)
    twin.policy = "an agent's"
    states = sample_initial_states(twin, 6)
    assert twin.policy is None
    np.testing.assert_array_equal(states.reward, 1.0)  # the twin's raw reward is 7
    np.testing.assert_array_equal(states.terminal, True)
    np.testing.assert_array_equal(states.action, [0, 1, 0, 1, 0, 1])


def test_a_game_that_is_shorter_than_a_stack_still_gives_its_states():
    assert len(sample_initial_states(make_twin(length=2), 5)) == 5


def test_batches_have_one_shape_and_all_states_in_order():
    states = sample_initial_states(make_twin(length=4), 10)
    states.terminal[3] = False
    batches = list(states.batches(gamma=0.9, batch_size=4))
    assert [len(batch["action"]) for batch in batches] == [4, 4, 4]
    joined = np.concatenate([batch["state"] for batch in batches])
    np.testing.assert_array_equal(joined[:10], states.state)
    discount = np.concatenate([batch["discount"] for batch in batches])
    np.testing.assert_array_equal(discount[:10], np.float32(0.9) * (np.arange(10) == 3))
    assert discount.dtype == np.float32


def test_no_states_make_no_batches():
    assert list(sample_initial_states(make_twin(), 0).batches(0.9, 4)) == []


def test_a_second_run_reads_what_the_first_one_wrote(tmp_path, said):
    first = held_out(make_twin(), 6, **LIMITS, directory=tmp_path / "a" / "b")
    assert "sampled 6 initial states into" in said.text
    twin = make_twin()
    second = held_out(twin, 6, **LIMITS, directory=tmp_path / "a" / "b")
    assert twin.decisions == 0
    for field in FIELDS:
        left, right = getattr(first.states, field), getattr(second.states, field)
        np.testing.assert_array_equal(left, right)
        assert left.dtype == right.dtype
    assert second.random_returns == first.random_returns == (63.0, 63.0, 63.0)
    assert second.random_return_mean == 63.0


def test_without_a_directory_no_file_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(held_out(make_twin(), 6, **LIMITS, directory=None).states) == 6
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize("other", [{"key": "other game"}, {"count": 7}, {"seed": INITIAL_STATES_SEED + 1}])
def test_another_key_count_or_seed_has_a_file_of_its_own(tmp_path, other):
    arguments = {"key": "scripted", "count": 6, "seed": INITIAL_STATES_SEED}
    for given in (arguments, arguments | other):
        twin = make_twin(given["key"])
        held_out(twin, given["count"], **LIMITS, directory=tmp_path, seed=given["seed"])
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(("other", "differing"), [({"key": "another"}, "key"), ({"count": 5}, "count")])
def test_a_file_with_another_content_is_said_and_made_anew(tmp_path, said, other, differing):
    held_out(make_twin(), 6, **LIMITS, directory=tmp_path)
    (mine,) = tmp_path.iterdir()
    twin = make_twin(other.get("key", "scripted"))
    held_out(twin, other.get("count", 6), **LIMITS, directory=tmp_path / "other")
    (tmp_path / "other").joinpath(next((tmp_path / "other").iterdir()).name).replace(mine)
    again = make_twin()
    assert len(held_out(again, 6, **LIMITS, directory=tmp_path).states) == 6
    assert f"it is for another {differing}): sampling its states anew" in said.text
    assert again.decisions > 0
    healed = make_twin()
    held_out(healed, 6, **LIMITS, directory=tmp_path)
    assert healed.decisions == 0


@pytest.mark.parametrize("spoil", [lambda data: b"", lambda data: b"?", lambda data: data[:-60]])
def test_a_broken_file_is_said_and_made_anew(tmp_path, said, spoil):
    held_out(make_twin(), 6, **LIMITS, directory=tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(spoil(whole))
    assert len(held_out(make_twin(), 6, **LIMITS, directory=tmp_path).states) == 6
    assert "can't be used" in said.text
    with np.load(path) as stored:
        assert len(stored["state"]) == 6


def test_a_file_with_too_few_rows_is_made_anew(tmp_path, said):
    held_out(make_twin(), 6, **LIMITS, directory=tmp_path)
    (path,) = tmp_path.iterdir()
    with np.load(path) as stored:
        content = dict(stored)
    np.savez_compressed(path, **content | {"reward": content["reward"][:5]})
    held_out(make_twin(), 6, **LIMITS, directory=tmp_path)
    assert "it doesn't hold 6 states" in said.text


def test_other_limits_score_the_random_policy_anew_and_keep_the_states(tmp_path, said):
    first = held_out(make_twin(), 6, **LIMITS, directory=tmp_path)
    limits = {"num_episodes": math.inf, "num_max_iter": 20}
    twin = make_twin()
    twin.policy = lambda features: np.zeros((4, 2))  # an agent's
    second = held_out(twin, 6, **limits, directory=tmp_path)
    assert "the random policy is played again" in said.text
    assert twin.restarts == []
    assert second.random_returns == (63.0, 63.0)
    np.testing.assert_array_equal(first.states.state, second.states.state)
    third = make_twin()
    held_out(third, 6, **limits, directory=tmp_path)
    assert third.decisions == 0


def test_the_random_score_is_the_random_policys():
    def game(policy, number):
        return [1.0 if policy is None else 100.0], False

    twin = ScriptedTwin(game)
    twin.policy = lambda features: np.zeros((1, 2))
    assert held_out(twin, 2, **LIMITS).random_returns == (1.0, 1.0, 1.0)
    assert twin.seeds == [INITIAL_STATES_SEED]


def test_no_finished_random_episode_is_nan():
    limits = {"num_episodes": math.inf, "num_max_iter": 5}
    assert math.isnan(held_out(make_twin(), 2, **limits).random_return_mean)


def test_a_directory_that_cannot_be_written_is_said_and_passed_over(tmp_path, said):
    (tmp_path / "file").write_text("in the way")
    found = held_out(make_twin(), 6, **LIMITS, directory=tmp_path / "file")
    assert len(found.states) == 6
    assert "can't be written" in said.text


def test_a_write_that_fails_leaves_the_old_file_and_no_part(tmp_path, said, monkeypatch):
    held_out(make_twin(), 6, **LIMITS, directory=tmp_path)
    (path,) = tmp_path.iterdir()
    before = path.read_bytes()

    def full(file, **arrays):
        file.write(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    held_out(make_twin(), 6, num_episodes=4, num_max_iter=math.inf, directory=tmp_path)
    assert "No space left on device" in said.text
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == before


def test_the_files_name_says_what_it_is_for_on_every_system(tmp_path):
    held_out(make_twin("ALE/Pong: sticky=0.25|84x84"), 6, **LIMITS, directory=tmp_path)
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("ALE-Pong-sticky-0-25-84x84-6-")
    assert path.suffix == ".npz"
