"""The ring: which row lies where, what append and record write, what is refused, and what state must agree with."""

import numpy as np
import pytest
from scripted_ring import (
    A,
    B,
    C,
    drawable_slots,
    frame_ring,
    frames_by_slot,
    make_ring,
    play,
    snapshot,
    state_arrays,
    store,  # noqa: F401
)

from dqn_lab.memory import describe_bytes
from dqn_lab.replay.raw_frames import RawFrames
from dqn_lab.replay.replay import Replay
from dqn_lab.replay.ring import NO_ACTION, FrameRing

pytestmark = pytest.mark.usefixtures("store")


def columns(ring, *names):
    return [getattr(ring, name).tolist() for name in names]


def record(ring, lanes=None, *, action=1, reward=0.0, terminal=False, end=False):
    count = ring.num_envs if lanes is None else len(lanes)
    ring.record([action] * count, [reward] * count, [terminal] * count, [end] * count, lanes)


# Rows and indices.


def test_an_observation_its_action_and_what_came_of_it_share_a_row():
    ring = make_ring(8)
    play(ring, A, 3, rewards=[0.0, 5.0], end="terminated")
    play(ring, B, 2)
    assert frames_by_slot(ring) == [100, 101, 102, 200, 201, 0, 0, 0]
    assert ring.action[:5].tolist() == [0, 1, NO_ACTION, 0, NO_ACTION]
    assert ring.reward[:5].tolist() == [0.0, 5.0, 0.0, 0.0, 0.0]
    assert ring.terminal[:5].tolist() == [False, True, False, False, False]
    assert ring.episode_end[:5].tolist() == [False, True, False, False, False]
    assert ring.age[:5].tolist() == [0, 1, 2, 0, 1]
    assert len(ring) == 5


def test_terminal_and_episode_end_are_two_facts():
    ring = make_ring(8)
    play(ring, A, 5, terminal=[1], end="truncated")  # a life is lost at a1, the game is cut short at a3
    assert ring.terminal[:5].tolist() == [False, True, False, False, False]
    assert ring.episode_end[:5].tolist() == [False, False, False, True, False]
    assert ring.age[:5].tolist() == [0, 1, 2, 3, 4]


def test_an_index_is_position_times_lanes_plus_lane_and_never_comes_again():
    ring = make_ring(12, num_envs=3)
    given = []
    for position in range(20):
        if position:
            record(ring)
        given.append(ring.append(np.arange(3) + 10 * position))
    given = np.array(given)  # [20, 3]
    assert given.ravel().tolist() == list(range(60))
    assert ring.slot(given[-4:]).tolist() == (given[-4:] % 12).tolist()
    assert ring.frames.read(given[-4:]).tolist() == [
        [160, 161, 162],
        [170, 171, 172],
        [180, 181, 182],
        [190, 191, 192],
    ]
    assert ring.newest_index.tolist() == [57, 58, 59]
    assert ring.oldest_position.tolist() == [16, 16, 16]


def test_each_lane_has_its_own_slots_and_write_position():
    ring = make_ring(8, num_envs=2)
    play(ring, A, 3, lane=0)
    play(ring, B, 6, lane=1)
    assert frames_by_slot(ring) == [100, 204, 101, 205, 102, 202, 0, 203]
    assert (ring.stored.tolist(), ring.oldest_position.tolist(), len(ring)) == ([3, 4], [0, 2], 7)
    assert ring.newest_index.tolist() == [4, 11]


def test_append_to_some_lanes_leaves_the_others_as_they_are():
    ring = make_ring(6, num_envs=3)
    assert ring.append(np.array([1, 2]), np.array([2, 0])).tolist() == [2, 0]
    assert frames_by_slot(ring) == [2, 0, 1, 0, 0, 0]
    assert ring.written.tolist() == [1, 0, 1]
    assert ring.newest_index.tolist() == [0, -2, 2]
    assert ring.append(np.empty(0), np.empty(0, int)).tolist() == []


def test_is_stored_knows_rows_of_any_age():
    ring = make_ring(8, num_envs=2)
    play(ring, A, 3, lane=0)  # positions 0..2: indices 0, 2, 4
    play(ring, B, 6, lane=1)  # positions 2..5 are left: indices 5, 7, 9, 11
    index = np.arange(-9, 20)
    assert index[ring.is_stored(index)].tolist() == [0, 2, 4, 5, 7, 9, 11]


def test_observations_keep_shape_and_dtype():
    ring = frame_ring(4, 2, (2, 3), np.float32)
    frames = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    index = ring.append(frames)
    assert ring.frames.dtype == np.float32 and ring.frames.shape == (2, 3)
    np.testing.assert_array_equal(ring.frames.read(index), frames, strict=True)


def test_the_ring_copies_what_it_is_given():
    ring = frame_ring(4, 1, (2,), np.uint8)
    frames = np.array([[7, 8]], np.uint8)
    index = ring.append(frames)
    frames[:] = 0  # as an environment does that reuses its buffer
    assert ring.frames.read(index).tolist() == [[7, 8]]


def test_a_new_ring_holds_nothing_undefined():
    spoilt = [np.full(64, np.nan) for _ in range(50)]
    del spoilt  # memory of the ring's size that is free again and full of NaN
    rings = [frame_ring(64, 1, (), np.float64) for _ in range(20)]
    held = {name for ring in rings for name, array in state_arrays(ring.get_state()).items() if array.any()}
    assert held <= {"frames/newest", "frames/serial"}
    assert all(snapshot(ring) == snapshot(rings[0]) for ring in rings)


def test_numbers_beyond_32_bits_still_count():
    ring = make_ring(8)
    play(ring, A, 10)
    later = ring.slots * 15 * 2**40  # positions by which nothing changes its place, in either store
    ring.written += later
    if not isinstance(ring.frames, RawFrames):
        ring.frames._newest += later
    record(ring)
    index = ring.append(np.array([110]))
    assert index.tolist() == [10 + later]
    assert ring.frames.read(index - 7).tolist() == [103]
    assert drawable_slots(ring, span=4) == [0, 1, 6, 7]  # a8, a9, a6, a7: a3..a10 are stored
    ring.check_valid()


def test_the_age_of_an_endless_episode_stays_at_the_most():
    ring, most = make_ring(8), np.iinfo(np.int32).max
    play(ring, A, 2)
    ring.written += 8 * 2**40
    ring.age[:2] = most - 2, most - 1  # as after so many more steps
    for number in range(8):
        record(ring)
        ring.append(np.array([number]))
    assert ring.age.tolist() == [most] * 8
    assert Replay(ring, span=4, n_step=1).windows(ring.newest_index - 1)[0].tolist() == [1]
    ring.check_valid()
    ring.age[5] -= 1
    with pytest.raises(ValueError, match="a row's age is one more than the row's before, or 0"):
        ring.check_valid()


@pytest.mark.case("B009")
def test_a_wrapping_ring_overwrites_its_oldest_rows():
    ring = make_ring(8)
    play(ring, 0, 6)
    assert len(ring) == 6
    for number in range(6, 11):
        record(ring)
        ring.append(np.array([number]))
    assert frames_by_slot(ring) == [8, 9, 10, 3, 4, 5, 6, 7]
    assert ring.written[0] % ring.slots == 3
    assert len(ring) == 8


# Memory.


@pytest.mark.case("B012")
def test_each_frame_is_stored_once():
    ring = FrameRing(10_000, 1, (84, 84), np.uint8)
    arrays = [*(vars(ring) | vars(ring.frames)).values()]
    assert sum(array.nbytes for array in arrays if isinstance(array, np.ndarray)) <= 72_000_000
    assert ring.frames.array.nbytes == ring.frames.nbytes == 70_560_000
    assert ring.nbytes <= 72_000_000
    frames, _ = FrameRing.bytes_needed(1_000_000, (84, 84), np.uint8)
    assert frames == 7_056_000_000
    assert describe_bytes(frames) == "6.57 GiB"


@pytest.mark.parametrize(("shape", "dtype"), [((84, 84), np.uint8), ((4,), np.float32), ((), np.float64)])
def test_the_bytes_needed_are_those_that_are_allocated(shape, dtype):
    ring = FrameRing(30, 3, shape, dtype)
    frames, beside = FrameRing.bytes_needed(30, shape, dtype)
    lanes = ring.written.nbytes + ring.ending.nbytes + ring.final.nbytes
    assert frames == ring.frames.nbytes
    assert frames + beside + lanes == ring.nbytes


# Refusals.


@pytest.mark.parametrize(("capacity", "num_envs"), [(1, 1), (0, 1), (7, 2), (2, 2), (9, 6)])
def test_a_capacity_that_does_not_give_every_lane_two_rows_is_refused(capacity, num_envs):
    with pytest.raises(
        ValueError, match=rf"at least twice as much\. Received: capacity={capacity}, num_envs={num_envs}"
    ):
        FrameRing(capacity, num_envs, (), np.uint8)


def test_a_ring_without_lanes_is_refused():
    with pytest.raises(ValueError, match="needs at least one lane. Received: num_envs=0"):
        FrameRing(8, 0, (), np.uint8)


def test_an_action_is_recorded_in_a_row_only():
    with pytest.raises(ValueError, match=r"recorded once, in an observation that goes on\. Received: lanes=\[0\]"):
        record(make_ring(4))


def test_an_action_is_recorded_once_and_not_in_a_final_observation():
    ring = make_ring(8, num_envs=2)
    ring.append(np.array([1, 2]))
    record(ring, np.array([1]), action=3, end=True)
    before = snapshot(ring)
    with pytest.raises(ValueError, match=r"recorded once.*Received: lanes=\[0, 1\]"):
        record(ring)  # refused as a whole
    assert snapshot(ring) == before
    ring.append(np.array([3]), np.array([1]))
    with pytest.raises(ValueError, match=r"recorded once.*Received: lanes=\[1\]"):
        record(ring, np.array([1]))


def test_an_observation_follows_an_action():
    ring = make_ring(8, num_envs=2)
    ring.append(np.array([1, 2]))
    record(ring, np.array([0]))
    before = snapshot(ring)
    with pytest.raises(ValueError, match=r"follows an action, or begins an episode\. Received: lanes=\[0, 1\]"):
        ring.append(np.array([3, 4]))
    assert snapshot(ring) == before


@pytest.mark.parametrize("shape", [(), (1, 3), (2,), (2, 1), (3,), (2, 3, 1), (3, 2)])
def test_observations_of_another_shape_are_refused_and_change_nothing(shape):
    ring = frame_ring(8, 2, (3,), np.uint8)
    before = snapshot(ring)
    with pytest.raises(ValueError) as error:
        ring.append(np.ones(shape))
    assert str(error.value) == f"The observations must have shape (2, 3). Received: shape={shape}"
    assert snapshot(ring) == before


# Abandoned episodes.


def test_an_abandoned_episode_is_truncated_at_its_newest_observation():
    ring = make_ring(8)
    play(ring, A, 3, rewards=[1.0, 2.0])
    ring.abandon_episodes()
    play(ring, B, 2)
    assert ring.episode_end[:5].tolist() == [False, True, False, False, False]
    assert not ring.terminal.any()
    assert ring.age[:5].tolist() == [0, 1, 2, 0, 1]
    ring.check_valid()


def test_only_running_episodes_of_the_named_lanes_are_abandoned():
    ring = make_ring(16, num_envs=4)
    for lane, end in enumerate((None, "terminated", None)):
        play(ring, 100 * lane, 3, end=end, lane=lane)  # lane 3 stays empty
    before = snapshot(ring)
    ring.abandon_episodes(np.array([1, 3]))
    assert snapshot(ring) == before
    ring.abandon_episodes(np.array([0, 1, 3]))
    assert ring.final.tolist() == [True, True, False, False]
    ring.abandon_episodes()
    assert ring.final.tolist() == [True, True, True, False]
    before = snapshot(ring)
    ring.abandon_episodes()
    assert snapshot(ring) == before
    ring.check_valid()


def test_an_abandoned_first_observation_ends_no_step_of_the_episode_before():
    ring = make_ring(8)
    play(ring, A, 2, end="terminated")
    ring.append(np.array([B]))
    ring.abandon_episodes()
    play(ring, C, 2)
    assert frames_by_slot(ring)[:5] == [A, A + 1, B, C, C + 1]
    assert ring.episode_end[:5].tolist() == [True, False, False, False, False]
    assert ring.age[:5].tolist() == [0, 1, 0, 0, 1]
    ring.check_valid()


@pytest.mark.parametrize("end", [False, True])
def test_an_abandoned_lane_takes_back_an_action_whose_outcome_was_not_stored(end):
    ring = make_ring(8)
    play(ring, A, 3)
    record(ring, reward=9.0, terminal=end, end=end)
    ring.abandon_episodes()
    assert (ring.action[2], ring.reward[2], ring.terminal[2], ring.episode_end[2]) == (NO_ACTION, 0.0, False, False)
    ring.check_valid()
    play(ring, B, 3)
    assert ring.age[:6].tolist() == [0, 1, 2, 0, 1, 2]
    assert ring.episode_end[:6].tolist() == [False, True, False, False, False, False]
    ring.check_valid()


# State.


def written_ring():
    ring = make_ring(16, num_envs=2)
    play(ring, A, 5, rewards=[1.0, 2.0, 3.0, 4.0], end="terminated", lane=0)
    play(ring, B, 6, rewards=[0.0, 6.0, 7.0, 8.0, 9.0], end="truncated", lane=0)  # lane 0 has wrapped
    play(ring, C, 3, rewards=[1.0, 1.0], lane=1)
    return ring


def test_a_restored_ring_goes_on_as_the_saved_one():
    ring, copy = written_ring(), make_ring(16, num_envs=2)
    copy.set_state(ring.get_state())
    assert snapshot(copy) == snapshot(ring)
    for each in (ring, copy):
        play(each, 400, 4, rewards=[3.0, 2.0, 1.0], end="terminated", lane=0)
    assert snapshot(copy) == snapshot(ring)
    copy.check_valid()


def test_set_state_copies_and_get_state_does_not():
    ring, copy = written_ring(), make_ring(16, num_envs=2)
    state, again = state_arrays(ring.get_state()), state_arrays(ring.get_state())
    assert all(np.shares_memory(state[name], again[name]) for name in state)
    copy.set_state(ring.get_state())
    copied = state_arrays(copy.get_state())
    assert not any(np.shares_memory(copied[name], state[name]) for name in state)
    ring.set_state(ring.get_state())  # onto itself
    assert snapshot(ring) == snapshot(copy)


def test_the_state_is_all_that_a_ring_has():
    ring = written_ring()
    arrays = {name for name, value in vars(ring).items() if isinstance(value, np.ndarray)}
    assert arrays - {"_all_lanes"} | {"frames"} == set(ring.get_state())


@pytest.mark.parametrize("name", [name for name in make_ring(2).get_state() if name != "frames"])
def test_a_state_that_lacks_an_array_or_has_another_shape_or_dtype_is_refused(name):
    ring, state = make_ring(16, num_envs=2), written_ring().get_state()
    before = snapshot(ring)
    array = state[name]
    for wrong, received in (
        (None, "None"),
        (array[:-1], f"(({len(array) - 1},), '{array.dtype}')"),
        (array.astype(np.float16), f"(({len(array)},), 'float16')"),
    ):
        with pytest.raises(ValueError) as error:
            ring.set_state({**state, name: wrong})
        assert str(error.value) == (
            f"The ring's {name!r} must have shape ({len(array)},) and dtype {array.dtype}. Received: {name}={received}"
        )
    with pytest.raises(ValueError, match=f"The ring's '{name}' must .* Received: {name}=None"):
        ring.set_state({key: value for key, value in state.items() if key != name})
    assert snapshot(ring) == before  # refused as a whole


def test_the_state_of_another_number_of_lanes_is_refused():
    with pytest.raises(ValueError, match=r"The ring's 'written' must have shape \(1,\)"):
        make_ring(16).set_state(written_ring().get_state())


# Rules between the columns.


BROKEN = [
    # Lane 0 of `written_ring` holds a3 a4 | b0 b1 b2 b3 b4 b5, in slots 6 8 | 10 12 14 0 2 4; b5 is final.
    # Lane 1 holds c0 c1 c2, in slots 1 3 5.
    ("age", 6, -1, "a row's age is at most its position, and not negative", 0),
    ("age", 6, 4, "a row's age is at most its position, and not negative", 0),
    ("age", 1, 1, "a row's age is at most its position, and not negative", 1),
    ("age", 6, 2, "a row's age is one more than the row's before, or 0", 0),
    ("age", 14, 3, "a row's age is one more than the row's before, or 0", 0),
    ("age", 2, 0, "a row's age is one more than the row's before, or 0", 0),
    ("age", 4, 0, "an episode's end is followed by a row of the same episode", 0),
    ("age", 10, 5, "a row's age is one more than the row's before, or 0", 0),
    ("age", 5, 0, "the row before an episode's first row has no action", 1),
    ("action", 12, -2, "an action is 0 or more", 0),
    ("action", 10, NO_ACTION, "a row inside an episode has its action", 0),
    ("action", 8, 1, "a final observation has no action", 0),
    ("action", 4, 1, "a final observation has no action", 0),
    ("reward", 12, np.nan, "a reward is finite", 0),
    ("reward", 12, np.inf, "a reward is finite", 0),
    ("reward", 8, 1.0, "only an action brings a reward", 0),
    ("reward", 5, 1.0, "only an action brings a reward", 1),
    ("terminal", 8, True, "a terminal step was an action", 0),
    ("terminal", 5, True, "a terminal step was an action", 1),
    ("episode_end", 5, True, "an episode ends by an action", 1),
    ("episode_end", 12, True, "a final observation has no action", 0),
    ("episode_end", 6, False, "a final observation follows an episode's end", 0),
    ("episode_end", 2, False, "`final` tells that the newest row is a final observation", 0),
    ("episode_end", 3, True, "`final` tells that the newest row is a final observation", 1),
    ("final", 0, False, "`final` tells that the newest row is a final observation", 0),
    ("final", 1, True, "`final` tells that the newest row is a final observation", 1),
    ("ending", 0, True, "`ending` tells that the newest row ended its episode", 0),
    ("ending", 1, True, "`ending` tells that the newest row ended its episode", 1),
    ("written", 0, 12, "a row's age is one more than the row's before, or 0", 0),
    ("written", 0, 10, "a row's age is at most its position, and not negative", 0),
    ("written", 1, 4, "a final observation follows an episode's end", 1),
    ("written", 1, -1, "a lane has 0 rows or more", 1),
]


@pytest.mark.parametrize(("column", "slot", "value", "rule", "lane"), BROKEN)
def test_check_valid_names_the_rule_that_is_broken(column, slot, value, rule, lane):
    ring = written_ring()
    ring.check_valid()
    getattr(ring, column)[slot] = value
    with pytest.raises(ValueError) as error:
        ring.check_valid()
    assert str(error.value) == f"The ring contradicts itself: {rule}. Received: lane={lane}"


def test_check_valid_refuses_lane_flags_without_rows():
    for name in ("ending", "final"):
        ring = make_ring(4)
        ring.check_valid()
        getattr(ring, name)[0] = True
        with pytest.raises(ValueError, match=f"contradicts itself: `{name}` tells"):
            ring.check_valid()


def test_a_lone_observation_may_be_abandoned_but_not_while_it_has_its_action():
    ring = make_ring(4)
    ring.append(np.array([A]))
    ring.abandon_episodes()
    ring.check_valid()
    ring.action[0] = 1
    with pytest.raises(ValueError, match="contradicts itself: `final` tells"):
        ring.check_valid()


def test_an_action_that_waits_for_its_observation_is_valid():
    ring = make_ring(4)
    ring.append(np.array([A]))
    record(ring, end=True)
    ring.check_valid()
    ring.ending[0] = False
    with pytest.raises(ValueError, match="contradicts itself: `ending` tells"):
        ring.check_valid()


@pytest.mark.parametrize("end", ["terminated", "truncated", None])
def test_check_valid_holds_at_every_wrap_position(end):
    ring = make_ring(7)
    for number in range(20):
        play(ring, 10 * number, 1 + number % 5, end=end)
        if end is None or number % 5 == 0:  # an episode of one observation has no action to end it
            ring.abandon_episodes()
        ring.check_valid()
    assert ring.written[0] == 60


def test_a_cleared_ring_is_as_it_was_when_it_was_new():
    ring, new = make_ring(12, 2), make_ring(12, 2)
    for lane in range(2):
        play(ring, A, 9, rewards=[1.0] * 8, end="terminated", lane=lane)
    ring.clear()
    assert snapshot(ring) == snapshot(new)
    assert (len(ring), ring.nbytes) == (0, new.nbytes)
    for each in (ring, new):
        play(each, B, 9, end="truncated", lane=1)
    ring.check_valid()
    assert frames_by_slot(ring) == frames_by_slot(new)
