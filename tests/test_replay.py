"""Replay: reads are gathers that write nothing, and rows that are not stored cannot be read."""

import numpy as np
import pytest
from scripted_ring import A, B, frame_ring, make_ring, play, snapshot, state_arrays, store  # noqa: F401

from dqn_lab.replay.replay import Replay
from dqn_lab.sequences.transitions import build_transitions

pytestmark = pytest.mark.usefixtures("store")


def written_replay(span=4, n_step=3):
    """Returns slots [b3, b4, b5, a3, a4, b0, b1, b2], of positions 3..10."""
    ring = make_ring(8)
    play(ring, A, 5, rewards=[1.0, 2.0, 3.0, 4.0], end="terminated")
    play(ring, B, 6, rewards=[5.0, 6.0, 7.0, 8.0, 9.0], terminal=[1])
    return Replay(ring, span=span, n_step=n_step)


def test_reads_give_what_was_written_in_these_rows():
    replay = written_replay()
    index = np.array([9, 5, 8, 5])  # b4, b0, b3, b0
    assert replay.actions(index).tolist() == [4, 0, 3, 0]
    assert replay.rewards(index).tolist() == [9.0, 5.0, 8.0, 5.0]
    assert replay.terminals(np.array([3, 5, 6])).tolist() == [True, False, True]
    assert replay.windows(np.array([5, 6, 7]))[0].tolist() == [2, 1, 3]
    assert replay.windows(np.array([5, 6, 7]))[1].tolist() == [True, True, False]
    assert replay.observations(index).tolist() == [[204], [200], [203], [200]]
    assert replay.observations(index[:2], 4).tolist() == [[201, 202, 203, 204], [200] * 4]
    assert set(replay.sample(50, np.random.default_rng(0)).tolist()) == {5, 6, 7}


def test_reads_keep_their_dtypes_and_put_the_batch_first():
    ring = frame_ring(8, 1, (3, 5), np.uint8)
    ring.append(np.full((1, 3, 5), 7, np.uint8))
    ring.record([2], [1.5], [True], [False])
    ring.append(np.full((1, 3, 5), 8, np.uint8))
    replay, index = Replay(ring, span=2, n_step=1), np.array([0, 0, 0])
    assert (replay.actions(index).dtype, replay.rewards(index).dtype) == (np.int32, np.float64)
    assert replay.terminals(index).dtype == bool
    observations = replay.observations(index + 1, 2)
    assert (observations.dtype, observations.shape) == (np.uint8, (3, 2, 3, 5))
    assert np.moveaxis(observations, 1, 0).flags.c_contiguous  # so that a stack is built without another copy
    assert observations[0, :, 0, 0].tolist() == [7, 8]


def all_reads(replay):
    index = replay.sampler.drawable()
    yield replay.sample(32, np.random.default_rng(0))
    yield index
    yield replay.actions(index)
    yield replay.rewards(index)
    yield replay.terminals(index)
    yield from replay.windows(index)
    yield from (replay.observations(index, span) for span in (1, 2, 4))
    built = build_transitions(replay, index, 0.5, lambda rows: replay.observations(rows, 4), replay.rewards)
    yield from built.values()
    ring = replay.ring
    yield from (ring.slot(index), ring.is_stored(index), ring.stored, ring.oldest_position, ring.newest_index)


def test_reading_never_writes():
    replay = written_replay()
    arrays, before = state_arrays(replay.ring.get_state()).values(), snapshot(replay.ring)
    for array in arrays:
        array.flags.writeable = False  # a write, even of the same value, raises
    read = list(all_reads(replay))
    replay.ring.check_valid()
    for array in arrays:
        array.flags.writeable = True
    for each in read:
        assert not any(np.shares_memory(each, array) for array in arrays)
        each[...] = 0  # what was read is the caller's
    assert snapshot(replay.ring) == before


@pytest.mark.parametrize("read", ["observations", "rewards", "actions", "terminals"])
def test_rows_that_were_overwritten_or_are_yet_to_come_cannot_be_read(read):
    replay = written_replay()
    with pytest.raises(ValueError) as error:
        getattr(replay, read)(np.array([-1, 2, 5, 6, 11]))
    assert str(error.value) == (
        "Only rows that are stored can be read: none overwritten, none yet to come. Received: index=[-1, 2, 11]"
    )


def test_a_stack_whose_oldest_observation_was_overwritten_cannot_be_read():
    replay = written_replay()
    assert replay.observations(np.array([3, 4]), 1).tolist() == [[103], [104]]
    assert replay.observations(np.array([4]), 2).tolist() == [[103, 104]]
    with pytest.raises(ValueError, match=r"Only rows that are stored.*Received: index=\[0, 1\]"):
        replay.observations(np.array([3, 5, 4]), 4)  # they need a0 and a1


@pytest.mark.parametrize("span", [0, -1, 5])
def test_a_hook_reads_no_more_observations_than_its_states_are_drawn_by(span):
    replay = written_replay()
    with pytest.raises(ValueError) as error:
        replay.observations(np.array([9]), span)
    assert str(error.value) == (
        f"A hook may read 1..4 observations of a row, as many as get_states_start() says. Received: span={span}"
    )


def test_actions_that_were_not_taken_cannot_be_read():
    with pytest.raises(ValueError) as error:
        written_replay().actions(np.array([4, 5, 10]))  # a4 is final, b5 the newest
    assert str(error.value) == (
        "No action is taken in a final observation, nor yet in a newest one. Received: index=[4, 10]"
    )
