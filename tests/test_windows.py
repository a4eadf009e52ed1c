"""Windows: what a stack shows, how far n steps reach, and which rows may be drawn."""

import numpy as np
import pytest
from scripted_ring import A, B, C, drawable_slots, frames_by_slot, make_ring, play

from dqn_lab.replay.replay import Replay
from dqn_lab.replay.windows import is_drawable, n_step_window, stack_index


def stacks(ring, slots, span):
    """Returns the stacks that end in these slots of a ring with one lane."""
    newest = ring.newest_index[0]
    index = newest - (newest - np.array(slots)) % ring.capacity  # the stored rows that lie there
    return Replay(ring, span=span, n_step=1).observations(index, span).tolist()


def windows(ring, index, n_step):
    length, terminal = n_step_window(ring, np.array(index), n_step)
    return length.tolist(), terminal.tolist()


# Stacks.


def test_a_stack_repeats_its_episodes_first_observation():
    ring = make_ring(16)
    play(ring, A, 4, end="terminated")
    play(ring, B, 6)
    index = np.arange(4, 10)  # b0..b5
    assert ring.frames.read(stack_index(ring, index, 4)).T.tolist() == [
        [200, 200, 200, 200],
        [200, 200, 200, 201],
        [200, 200, 201, 202],
        [200, 201, 202, 203],
        [201, 202, 203, 204],
        [202, 203, 204, 205],
    ]


def test_a_stack_goes_on_across_a_lost_life():
    ring = make_ring(8)
    play(ring, A, 5, terminal=[1])
    assert stacks(ring, [3], 4) == [[100, 101, 102, 103]]


def test_stacks_stay_in_their_lane():
    ring = make_ring(12, num_envs=3)
    for lane, first in enumerate((A, B, C)):
        play(ring, first, 3, lane=lane)
    index = np.array([6, 7, 8])  # the third row of each lane
    assert stack_index(ring, index, 2).tolist() == [[3, 4, 5], [6, 7, 8]]
    assert stack_index(ring, index, 4).tolist() == [[0, 1, 2], [0, 1, 2], [3, 4, 5], [6, 7, 8]]


# Windows of n steps.


@pytest.mark.case("B047")
def test_every_action_of_an_episode_begins_a_window():
    ring = make_ring(8)
    play(ring, A, 6, end="terminated")
    assert drawable_slots(ring, span=1, n_step=3) == [0, 1, 2, 3, 4]
    assert windows(ring, range(5), 3) == ([3, 3, 3, 2, 1], [False, False, True, True, True])


def test_a_truncation_shortens_windows_and_none_is_terminal():
    ring = make_ring(8)
    play(ring, A, 6, end="truncated")
    assert windows(ring, range(5), 3) == ([3, 3, 3, 2, 1], [False] * 5)


def test_a_lost_life_ends_windows_and_the_next_ones_go_on():
    ring = make_ring(8)
    play(ring, A, 6, terminal=[2])
    assert windows(ring, range(3), 3) == ([3, 2, 1], [True, True, True])
    assert windows(ring, [3], 2) == ([2], [False])


def test_a_window_of_one_step_is_the_step():
    ring = make_ring(8)
    play(ring, A, 4, terminal=[1], end="truncated")
    assert windows(ring, range(3), 1) == ([1, 1, 1], [False, True, False])


def test_a_terminal_beyond_a_window_is_not_its_own():
    ring = make_ring(8)
    play(ring, A, 5, end="terminated")
    assert windows(ring, range(4), 2) == ([2, 2, 2, 1], [False, False, True, True])


def test_windows_stay_in_their_lane():
    ring = make_ring(16, num_envs=2)
    play(ring, A, 6, lane=0)
    play(ring, B, 3, end="terminated", lane=1)
    assert windows(ring, [0, 1, 2, 3], 3) == ([3, 2, 3, 1], [False, True, False, True])


# What may be drawn.


@pytest.mark.case("B001")
def test_a_row_is_drawable_only_while_all_that_its_stack_shows_is_stored():
    ring = make_ring(8)
    play(ring, A, 5, end="terminated")
    play(ring, B, 6)
    assert frames_by_slot(ring) == [203, 204, 205, 103, 104, 200, 201, 202]
    assert drawable_slots(ring, span=4) == [0, 1, 5, 6, 7]
    assert stacks(ring, [0, 1], 4) == [[200, 201, 202, 203], [201, 202, 203, 204]]
    assert stacks(ring, [5, 6], 4) == [[200, 200, 200, 200], [200, 200, 200, 201]]

    assert drawable_slots(ring, span=1) == [0, 1, 3, 5, 6, 7]
    assert stacks(ring, [3, 4], 1) == [[103], [104]]
    assert (ring.terminal[3], n_step_window(ring, np.array([3]), 1)[1].tolist()) == (True, [True])


@pytest.mark.case("B003")
def test_a_ring_that_still_fills_gives_complete_transitions_only():
    ring = make_ring(8)
    play(ring, A, 3)
    assert drawable_slots(ring, span=4) == [0, 1]
    assert stacks(ring, [2], 4) == [[100, 100, 101, 102]]  # the next state of slot 1


@pytest.mark.case("B010")
def test_what_may_be_drawn_follows_what_was_written():
    ring, counts = make_ring(4), []
    sampler = Replay(ring, span=1, n_step=1).sampler
    for number in range(1, 7):
        if number > 1:
            ring.record([0], [0.0], [False], [False])
        ring.append(np.array([number]))
        drawable = sampler.drawable()
        counts.append(len(drawable))
        assert 0 not in ring.frames.read(drawable)
        assert 0 not in ring.frames.read(drawable + 1)
    assert counts == [0, 1, 2, 3, 3, 3]


def test_a_final_observation_and_a_newest_row_are_not_drawable():
    ring = make_ring(8)
    play(ring, A, 3, end="truncated")
    play(ring, B, 2)
    assert drawable_slots(ring, span=1) == [0, 1, 3]


def test_a_row_waits_until_its_window_is_complete():
    ring = make_ring(16)
    play(ring, A, 5)
    assert drawable_slots(ring, span=1, n_step=3) == [0, 1]  # a1 bootstraps from a4, the newest
    ring.record([4], [0.0], [False], [True])
    assert drawable_slots(ring, span=1, n_step=3) == [0, 1]  # what a4's action led to is not stored yet
    ring.append(np.array([105]))
    assert drawable_slots(ring, span=1, n_step=3) == [0, 1, 2, 3, 4]


def test_a_lost_life_completes_a_window_before_its_n_steps():
    ring = make_ring(16)
    play(ring, A, 5, terminal=[3])
    assert drawable_slots(ring, span=1, n_step=3) == [0, 1, 2, 3]


def test_an_abandoned_episode_is_drawable_up_to_its_newest_observation():
    ring = make_ring(16)
    play(ring, A, 4)
    ring.abandon_episodes()
    play(ring, B, 3)
    assert drawable_slots(ring, span=4, n_step=2) == [0, 1, 2, 4]
    assert windows(ring, range(3), 2) == ([2, 2, 1], [False] * 3)


def test_rows_that_are_gone_or_yet_to_come_are_not_drawable():
    ring = make_ring(8, num_envs=2)
    play(ring, A, 7, lane=0)  # positions 3..6 are left
    index = np.arange(-20, 40)
    assert index[is_drawable(ring, index, 1, 1)].tolist() == [6, 8, 10]
    assert not is_drawable(make_ring(8), index, 1, 1).any()


@pytest.mark.parametrize("n_step", [8, 9, 50])
def test_a_window_longer_than_the_ring_is_drawable_only_where_it_ends(n_step):
    ring = make_ring(8)
    play(ring, A, 30)
    assert drawable_slots(ring, span=1, n_step=n_step) == []
    ring.record([0], [0.0], [True], [True])
    ring.append(np.array([130]))
    assert drawable_slots(ring, span=1, n_step=n_step) == [0, 1, 2, 3, 4, 5, 7]  # a30, final, lies in slot 6
