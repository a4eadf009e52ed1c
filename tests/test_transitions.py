"""Transitions: n-step rewards, discounts and next states, worked by hand."""

import numpy as np
import pytest
from scripted_ring import A, B, make_ring, play

from dqn_lab.replay.replay import Replay
from dqn_lab.replay.ring import FrameRing
from dqn_lab.sequences.transitions import build_transitions


def transitions(ring, index=None, *, span=1, n_step=1, gamma=0.99):
    """Returns the transitions that begin in these rows, or in all that may be drawn, as lists."""
    replay = Replay(ring, span=span, n_step=n_step)
    index = np.sort(replay.sampler.drawable()) if index is None else np.array(index)
    batch = build_transitions(replay, index, gamma, lambda rows: replay.observations(rows, span), replay.rewards)
    return {name: value.tolist() for name, value in batch.items()}


def targets(batch, value):
    """Returns reward + discount * value of the next state."""
    return [
        pytest.approx(reward + discount * value)
        for reward, discount in zip(batch["reward"], batch["discount"], strict=True)
    ]


# Rows of collected bug reports.


@pytest.mark.case("B005")
def test_as_many_transitions_as_actions_and_one_of_them_terminal():
    ring = make_ring(32)
    play(ring, A, 9, rewards=range(1, 9), end="terminated")
    batch = transitions(ring, span=4)
    assert len(batch["index"]) == 8
    assert [number for number, discount in enumerate(batch["discount"]) if discount == 0] == [7]
    assert batch["reward"][7] == 8.0
    assert batch["state"][7] == [104, 105, 106, 107]
    assert batch["next_state"][7] == [105, 106, 107, 108]


@pytest.mark.case("B006")
def test_the_terminal_transition_of_an_episode_shorter_than_a_stack_is_there():
    ring = make_ring(32)
    play(ring, A, 3, rewards=[0.0, 1.0], end="terminated")
    batch = transitions(ring, span=4)
    assert (len(batch["index"]), sum(batch["reward"])) == (2, 1.0)
    terminal = batch["discount"].index(0.0)
    assert batch["state"][terminal][-1] == 101

    ring = make_ring(32)
    play(ring, A, 2, rewards=[5.0], end="terminated")
    batch = transitions(ring, span=4)
    assert (batch["reward"], batch["discount"], batch["state"]) == ([5.0], [0.0], [[100, 100, 100, 100]])


@pytest.mark.case("B007")
def test_a_truncated_episode_bootstraps_from_its_own_final_observation():
    ring = make_ring(16)
    play(ring, A, 4, rewards=[1.0, 1.0, 1.0], end="truncated")
    play(ring, B, 1)
    batch = transitions(ring, [2], span=2)
    assert batch["state"] == [[101, 102]]
    assert batch["next_state"] == [[102, 103]]
    assert batch["discount"] == [pytest.approx(0.99)]
    assert [10.9] == targets(batch, 10.0)


@pytest.mark.case("B016")
@pytest.mark.parametrize(("end", "target"), [(None, 10.9), ("truncated", 10.9), ("terminated", 1.0)])
def test_only_a_terminal_step_takes_the_bootstrap_away(end, target):
    ring = make_ring(8)
    play(ring, A, 2, rewards=[1.0], end=end)
    batch = transitions(ring, gamma=0.99)
    assert batch["reward"] == [1.0]
    assert batch["discount"] == [0.0 if end == "terminated" else pytest.approx(0.99)]
    assert [target] == targets(batch, max([4.0, 10.0, 7.0]))


@pytest.mark.case("B045")
@pytest.mark.parametrize(
    ("end", "reward", "discount", "target"),
    [
        ("terminated", [3, 6, 12, 16, 16], [0.125, 0.125, 0, 0, 0], [4.25, 7.25, 12, 16, 16]),
        ("truncated", [3, 6, 12, 16, 16], [0.125, 0.125, 0.125, 0.25, 0.5], [4.25, 7.25, 13.25, 18.5, 21]),
    ],
)
def test_each_row_carries_the_discount_of_its_own_window(end, reward, discount, target):
    ring = make_ring(8)
    play(ring, A, 6, rewards=[1.0, 2.0, 4.0, 8.0, 16.0], end=end)
    batch = transitions(ring, n_step=3, gamma=0.5)
    assert (batch["reward"], batch["discount"]) == (reward, discount)
    assert target == targets(batch, 10.0)
    assert batch["next_state"] == [[103], [104], [105], [105], [105]]


@pytest.mark.case("B047")
def test_every_action_yields_one_transition_of_n_steps():
    ring = make_ring(8)
    play(ring, A, 6, rewards=[0.0, 0.0, 0.0, 0.0, 1.0], end="terminated")
    batch = transitions(ring, n_step=3, gamma=1.0)
    assert batch["action"] == [0, 1, 2, 3, 4]
    assert batch["reward"] == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert batch["discount"] == [1.0, 1.0, 0.0, 0.0, 0.0]


# What a batch is.


def test_a_lost_life_is_terminal_and_the_next_state_is_still_of_the_same_game():
    ring = make_ring(16)
    play(ring, A, 6, rewards=[1.0, 2.0, 4.0, 8.0, 16.0], terminal=[1])
    batch = transitions(ring, [0, 1, 2], span=2, n_step=2, gamma=0.5)
    assert batch["reward"] == [2.0, 2.0, 8.0]
    assert batch["discount"] == [0.0, 0.0, 0.25]
    assert batch["next_state"] == [[101, 102], [101, 102], [103, 104]]
    assert batch["state"] == [[100, 100], [100, 101], [101, 102]]


def test_one_step_is_the_plain_transition():
    ring = make_ring(16)
    play(ring, A, 5, rewards=[1.0, 2.0, 4.0, 8.0], end="truncated")
    batch = transitions(ring, gamma=0.5)
    assert batch["reward"] == [1.0, 2.0, 4.0, 8.0]
    assert batch["discount"] == [0.5] * 4
    assert batch["state"] == [[100], [101], [102], [103]]
    assert batch["next_state"] == [[101], [102], [103], [104]]


def test_lanes_do_not_mix():
    ring = make_ring(24, num_envs=3)
    for lane in range(3):
        play(ring, 100 * (lane + 1), 5, rewards=[lane + 1.0] * 4, lane=lane)
    batch = transitions(ring, [3, 4, 5], span=2, n_step=2, gamma=0.5)
    assert batch["state"] == [[100, 101], [200, 201], [300, 301]]
    assert batch["next_state"] == [[102, 103], [202, 203], [302, 303]]
    assert batch["reward"] == [1.5, 3.0, 4.5]
    assert batch["index"] == [3, 4, 5]


@pytest.mark.parametrize(("gamma", "reward", "discount"), [(0.0, 1.0, 0.0), (1.0, 7.0, 1.0)])
def test_the_ends_of_the_range_of_gamma(gamma, reward, discount):
    ring = make_ring(8)
    play(ring, A, 4, rewards=[1.0, 2.0, 4.0])
    batch = transitions(ring, n_step=3, gamma=gamma)
    assert (batch["reward"], batch["discount"]) == ([reward], [discount])


def test_keys_shapes_and_dtypes_of_a_batch():
    ring = FrameRing(16, 1, (4, 3), np.uint8)
    for number in range(6):
        if number:
            ring.record([number], [0.1], [False], [False])
        ring.append(np.full((1, 4, 3), number, np.uint8))
    replay = Replay(ring, span=2, n_step=2)
    batch = build_transitions(
        replay,
        replay.sample(5, np.random.default_rng(0)),
        0.9,
        lambda rows: replay.observations(rows, 2),
        replay.rewards,
    )
    assert {name: (value.dtype.name, value.shape) for name, value in batch.items()} == {
        "state": ("uint8", (5, 2, 4, 3)),
        "action": ("int32", (5,)),
        "reward": ("float32", (5,)),
        "discount": ("float32", (5,)),
        "next_state": ("uint8", (5, 2, 4, 3)),
        "weight": ("float32", (5,)),
        "index": ("int64", (5,)),
    }
    assert batch["weight"].tolist() == [1.0] * 5
    assert batch["reward"] == pytest.approx(np.full(5, 0.19))
    assert batch["discount"] == pytest.approx(np.full(5, 0.81))


def test_sums_are_made_in_64_bits():
    ring = make_ring(8)
    play(ring, A, 4, rewards=[2.0**24, 1.0, 1.0])
    assert transitions(ring, n_step=3, gamma=1.0)["reward"] == [2.0**24 + 2]  # 32 bits lose each 1 on the way


def test_the_reward_hook_is_asked_once_per_step_of_a_window_and_for_rows_of_that_window_only():
    ring, asked = make_ring(16), []
    play(ring, A, 4, rewards=[1.0, 1.0, 1.0], end="terminated")
    play(ring, B, 5, rewards=[1.0, 1.0, 1.0, 1.0])

    def get_reward(rows):
        asked.append(rows.tolist())
        return -replay.rewards(rows)  # what the learner sees is the hook's business

    replay = Replay(ring, span=1, n_step=3)
    batch = build_transitions(replay, np.array([2, 0, 4]), 0.5, replay.observations, get_reward)
    assert asked == [[2, 0, 4], [2, 1, 5], [2, 2, 6]]
    assert batch["reward"].tolist() == [-1.0, -1.75, -1.75]
    asked.clear()
    build_transitions(replay, np.array([2]), 0.5, replay.observations, get_reward)
    assert asked == [[2]]


def test_the_feature_hook_is_asked_for_states_and_next_states_together():
    ring, asked = make_ring(16, num_envs=2), []
    for lane in range(2):
        play(ring, A, 5, lane=lane)
    replay = Replay(ring, span=1, n_step=2)
    build_transitions(replay, np.array([1, 4]), 0.5, lambda rows: asked.append(rows.tolist()) or rows, replay.rewards)
    assert asked == [[1, 4, 5, 8]]  # in one go: they share observations


def test_rows_may_be_a_list_or_none_at_all():
    ring = make_ring(8)
    play(ring, A, 4, rewards=[1.0, 2.0, 4.0])
    replay = Replay(ring, span=1, n_step=2)
    batch = build_transitions(replay, [1, 0], 0.5, replay.observations, replay.rewards)
    assert (batch["index"].dtype, batch["reward"].tolist()) == (np.int64, [4.0, 2.0])
    batch = build_transitions(replay, [], 0.5, replay.observations, replay.rewards)
    assert {len(value) for value in batch.values()} == {0}


# Refusals.


@pytest.mark.parametrize(
    ("index", "rule"),
    [
        (0, r"Only rows that are stored .* Received: index=\[0\]"),  # a0 was overwritten
        (3, r"Only rows that are stored .* Received: index=\[1, 2\]"),  # the stacks of a3 and a4 need a1 and a2
        (8, r"Only rows that are stored .* Received: index=\[11\]"),  # the window of b3 ends beyond b5
        (10, r"Only rows that are stored .* Received: index=\[11\]"),  # the newest row
        (11, r"Only rows that are stored .* Received: index=\[11\]"),  # yet to come
    ],
)
def test_rows_that_make_no_complete_transition_are_refused(index, rule):
    ring = make_ring(8)
    play(ring, A, 5, end="terminated")
    play(ring, B, 6)  # positions 3..10 are left
    with pytest.raises(ValueError, match=rule):
        transitions(ring, [5, index], span=3, n_step=3)


def test_a_final_observation_makes_no_transition():
    ring = make_ring(16)
    play(ring, A, 3, end="truncated")
    play(ring, B, 6)
    with pytest.raises(ValueError, match=r"No action is taken in a final observation, .* Received: index=\[2\]"):
        transitions(ring, [1, 2, 3], span=2, n_step=3)
