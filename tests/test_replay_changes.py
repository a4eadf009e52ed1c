"""Changes of a ring: applied in order they make the same ring, they cost what is new, and others are refused."""

import io
import tracemalloc
from functools import partial

import lz4.block
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_ring import A, B, frame_ring, make_ring, play, snapshot, state_arrays, store  # noqa: F401
from twin_rings import COLUMNS, advance, check_same

from dqn_lab.replay.changes import first_changed, index_between, still_needed
from dqn_lab.replay.compression import CompressedFrames
from dqn_lab.replay.replay import Replay
from dqn_lab.replay.ring import FrameRing

pytestmark = pytest.mark.usefixtures("store")


def load(files, capacity, num_envs):
    ring = make_ring(capacity, num_envs)
    for changes in files:
        ring.apply_changes(changes)
    return ring


class Saved:
    """A ring that is saved and resumed, the files on the disk, and a plain twin that never stops."""

    def __init__(self, num_envs, slots, seed):
        self.size = (slots * num_envs, num_envs)
        self.ring, self.twin, self.files, self.since = (
            make_ring(*self.size),
            FrameRing(*self.size, (), np.int64),
            [],
            None,
        )
        self.generator = np.random.default_rng(seed)

    def happen(self, what, lanes):
        if isinstance(what, int):
            for _ in range(what):
                advance((self.ring, self.twin), lanes, self.generator)
        elif what == "abandon":
            for each in (self.ring, self.twin):
                each.abandon_episodes(lanes)
        else:
            self.save()
        if what == "resume":
            self.ring = load(self.files, *self.size)
            self.ring.check_valid()
            check_same(self.ring, self.twin)

    def save(self):
        file = io.BytesIO()
        np.savez(file, **self.ring.get_changes(self.since))
        self.since = self.ring.written.copy()
        file.seek(0)
        self.files.append(dict(np.load(file, allow_pickle=False)))
        self.files = [each for each in self.files if still_needed(each["written"], self.since, self.ring.slots)]


@st.composite
def histories(draw):
    num_envs = draw(st.integers(1, 3))
    what = st.one_of(st.integers(0, 3), st.integers(0, 12), st.sampled_from(["abandon", "save", "save", "resume"]))
    lanes = st.lists(st.integers(0, num_envs - 1), unique=True, min_size=1).map(np.array)
    return num_envs, draw(st.integers(2, 14)), draw(st.lists(st.tuples(what, lanes), min_size=10, max_size=40))


@given(histories(), st.integers(0, 2**32))
def test_a_ring_that_is_saved_and_resumed_is_the_one_that_never_stopped(history, seed):
    num_envs, slots, events = history
    saved = Saved(num_envs, slots, seed)
    for what, lanes in (*events, ("resume", None)):
        saved.happen(what, lanes)
    for _ in range(40):  # what is appended later
        saved.happen(1, np.arange(num_envs))
        check_same(saved.ring, saved.twin)


@given(histories(), st.integers(0, 2**32), st.integers(1, 3))
def test_changes_that_are_missing_at_the_beginning_are_noticed_if_they_matter(history, seed, missing):
    num_envs, slots, events = history
    saved = Saved(num_envs, slots, seed)
    for what, lanes in (*events, (3, np.arange(num_envs)), ("save", None)):
        saved.happen(what, lanes)
    ring = load(saved.files[missing:] or saved.files[-1:], *saved.size)
    try:
        ring.check_valid()
    except ValueError as error:
        assert "no changes with a stored row were left out" in str(error)
    else:
        check_same(ring, saved.twin)


def test_old_changes_are_dropped_one_after_the_other():
    saved, kept = Saved(num_envs=2, slots=10, seed=0), []
    for _ in range(20):
        for _ in range(8):  # four rows
            saved.happen(1, np.arange(2))
        saved.save()
        kept.append(len(saved.files))
    assert kept == [1, 2, 3] + [3] * 17  # of ten rows, the newest eight and two of the four before


# By hand.


def test_which_rows_have_changed():
    since, written = np.array([6, 6, 6, 0, 1, 9]), np.array([9, 9, 6, 3, 1, 30])
    assert first_changed(since, written, 8).tolist() == [4, 4, 4, 0, 0, 22]
    assert first_changed(since, written, 4).tolist() == [5, 5, 4, 0, 0, 26]


def test_the_indices_between_positions_ascend():
    assert index_between(np.array([2, 0, 5]), np.array([4, 1, 5])).tolist() == [1, 6, 9]
    assert index_between(np.array([3]), np.array([1])).tolist() == []


@pytest.mark.parametrize(
    ("then", "now", "needed"),
    [([5, 5], [13, 13], False), ([5, 5], [13, 12], True), ([6, 5], [13, 13], True), ([0, 0], [0, 0], False)],
)
def test_changes_are_needed_as_long_as_one_lane_stores_one_of_their_rows(then, now, needed):
    assert still_needed(np.array(then), np.array(now), slots=8) is needed


def test_changes_hold_the_new_rows_and_two_before_them():
    ring = make_ring(16, num_envs=2)
    play(ring, A, 5, rewards=[1.0, 2.0, 3.0, 4.0], lane=0)
    since = ring.written.copy()
    play(ring, B, 2, rewards=[5.0], lane=1)
    ring.abandon_episodes(np.array([0]))
    changes = ring.get_changes(since)
    assert [changes[name].tolist() for name in ("since", "first", "written")] == [[5, 0], [3, 0], [5, 2]]
    assert changes["final"].tolist() == [True, False]
    assert changes["reward"].tolist() == [5.0, 0.0, 4.0, 0.0]  # b0 b1 a3 a4
    assert changes["episode_end"].tolist() == [False, False, True, False]


def test_since_must_be_an_earlier_count_of_this_ring():
    ring = make_ring(16, num_envs=2)
    play(ring, A, 3, lane=0)
    for since in ([4, 0], [-1, 0], [3], [[3, 0]]):
        with pytest.raises(ValueError) as error:
            ring.get_changes(np.array(since))
        assert str(error.value) == (
            f"Changes are those since an earlier `written` of this ring, now [3, 0]. Received: since={since}"
        )


@given(histories(), st.integers(0, 2**32), st.lists(st.floats(0, 1), max_size=4))
def test_parts_of_changes_applied_in_order_are_the_changes(history, seed, cuts):
    num_envs, slots, events = history
    saved = Saved(num_envs, slots, seed)
    for what, lanes in (*events, ("save", None), (5, np.arange(num_envs))):
        saved.happen(what, lanes)
    ring, files = saved.ring, list(saved.files)
    least = np.maximum(saved.since, ring.oldest_position)
    for cut in (*sorted(cuts), 1.0):
        until = least + ((ring.written - least) * cut).astype(int)
        files.append(ring.get_changes(saved.since, until))
        saved.since = until
    needed = [each for each in files if still_needed(each["written"], ring.written, slots)]
    again = load(needed, *saved.size)
    again.check_valid()
    check_same(again, saved.twin)


def test_a_part_ends_where_it_is_told_to():
    ring = make_ring(8)
    play(ring, A, 12)  # the positions 4 to 11 are stored
    part = ring.get_changes(np.array([3]), np.array([6]))
    assert [part[name].tolist() for name in ("since", "first", "written", "action")] == [[3], [4], [6], [4, 5]]
    assert ring.written.tolist() == [12]
    ring.get_changes(np.array([3]))["written"][0] = 0
    assert ring.written.tolist() == [12]


@pytest.mark.parametrize("until", [[3], [13], [6, 6], 6])
def test_a_part_ends_within_what_is_stored(until):
    ring = make_ring(8)
    play(ring, A, 12)
    with pytest.raises(ValueError) as error:
        ring.get_changes(np.array([3]), np.array(until))
    assert str(error.value) == f"Changes end between [4] and [12]. Received: until={until}"
    with pytest.raises(ValueError, match=r"between \[7\] and \[12\]"):
        ring.get_changes(np.array([7]), np.array([6]))


# Cost.


def changing_ring(rows):
    ring = FrameRing(4_000, 2, (30, 30), np.uint8, partial(CompressedFrames, chunk_bytes=2**16))
    picture, generator = np.zeros((2, 30, 30), np.uint8), np.random.default_rng(0)
    write_on(ring, picture, generator, rows)
    return ring, picture, generator


def write_on(ring, picture, generator, rows):
    for _ in range(rows):
        if ring.written[0]:
            ring.record([0, 1], [0.0, 0.0], [False, False], [False, False])
        picture[:, generator.integers(30)] = generator.integers(256, size=30)
        ring.append(picture)


def size(changes):
    return sum(array.nbytes for array in changes.values())


def test_changes_cost_what_is_new_and_unpack_nothing(monkeypatch):
    ring, *source = changing_ring(3_000)  # has wrapped
    monkeypatch.setattr(lz4.block, "decompress", None)
    everything, sizes = size(ring.get_changes()), []
    for _ in range(3):
        since = ring.written.copy()
        for rows in (0, 160, 160):
            write_on(ring, *source, rows)
            tracemalloc.start()
            sizes.append(size(ring.get_changes(since)))
            assert tracemalloc.get_traced_memory()[1] < sizes[-1] * 2 + 30_000
            tracemalloc.stop()
    # A raw block per lane comes with each, and perhaps a compressed one more than are new.
    nothing, some, more = np.array(sizes).reshape(3, 3).T
    assert nothing.max() < 15_000
    np.testing.assert_allclose(some - 29_000, everything * 160 / 2_000, rtol=0.2)
    np.testing.assert_allclose(more - some, everything * 160 / 2_000, rtol=0.2)


def test_changes_share_no_memory_with_the_ring():
    ring = frame_ring(16, 2, (3,), np.uint8)
    for number in range(10):
        ring.append(np.full((2, 3), number))
        ring.record([1, 1], [0.0, 1.0], [False, False], [False, False])
    changes = ring.get_changes()
    copy = frame_ring(16, 2, (3,), np.uint8)
    copy.apply_changes(changes)
    for each in (ring, copy):
        own = state_arrays(each.get_state()).values()
        assert not any(np.shares_memory(array, mine) for array in changes.values() for mine in own)
    assert not any(np.shares_memory(a, b) for n, a in changes.items() for m, b in changes.items() if n < m)
    assert all(array.dtype != object for array in changes.values())


# Refusals.


def saved_twice():
    """Returns the changes of two checkpoints of a ring, five rows and three more."""
    ring = make_ring(16, num_envs=2)
    play(ring, A, 5, lane=0)
    play(ring, B, 5, lane=1)
    first = ring.get_changes()
    ring.abandon_episodes()
    play(ring, A, 3, lane=0)
    play(ring, B, 3, lane=1)
    return first, ring.get_changes(first["written"])


def check_refused(ring, changes, said):
    before = snapshot(ring)
    with pytest.raises(ValueError) as error:
        ring.apply_changes(changes)
    assert said in str(error.value) and "\n" not in str(error.value)
    assert snapshot(ring) == before


def test_changes_in_another_order_or_with_a_gap_are_refused():
    first, second = saved_twice()
    order = "Changes are applied in the order in which they were made, with none left out. Received: "
    ring = load([first], 16, 2)
    check_refused(ring, first, order + "since=[0, 0], written=[5, 5], in a ring of written=[5, 5]")
    check_refused(ring, {**second, "since": np.array([5, 6])}, order)
    check_refused(ring, {**second, "written": np.array([8, 4])}, order)
    check_refused(make_ring(16, 2), {**first, "since": np.array([-1, 0])}, order)
    for first_row in ([2, 3], [9, 3]):
        said = f"Rows of changes begin between [3, 3] and [8, 8]. Received: first={first_row}"
        check_refused(ring, {**second, "first": np.array(first_row)}, said)
    ring.apply_changes(second)
    check_refused(ring, second, order + "since=[5, 5], written=[8, 8], in a ring of written=[8, 8]")
    check_refused(load([second], 16, 2), first, order)


def test_a_ring_that_lacks_its_first_changes_draws_nothing_of_them_and_is_not_valid():
    _, second = saved_twice()
    ring = load([second], 16, 2)  # a3 a4 | a0 a1 a2 in positions 3 to 7, and b likewise
    assert sorted(Replay(ring, span=1, n_step=1).sampler.drawable().tolist()) == [6, 7, 10, 11, 12, 13]
    with pytest.raises(ValueError, match="no changes with a stored row were left out. Received: lane=0"):
        ring.check_valid()


@pytest.mark.parametrize("name", ["capacity", "since", "first", "written", "ending", "final", *COLUMNS])
def test_changes_that_lack_an_array_or_have_another_shape_or_dtype_are_refused(name):
    first, second = saved_twice()
    ring, array = load([first], 16, 2), second[name]
    check_refused(ring, {**second, name: None}, f"The ring's '{name}' must have shape")
    check_refused(ring, {**second, name: array.astype(np.float16)}, f"and dtype {array.dtype}. Received: {name}=(")
    check_refused(ring, {**second, name: np.stack([array, array])}, f"Received: {name}=((2")


def test_changes_of_another_capacity_or_number_of_lanes_are_refused():
    first, _ = saved_twice()
    check_refused(make_ring(18, 2), first, "must be of a ring of capacity 18. Received: capacity=16")
    check_refused(make_ring(16), first, "The ring's 'since' must have shape (1,) and dtype int64.")


def test_changes_of_other_observations_or_another_store_are_refused(store):  # noqa: F811
    first, _ = saved_twice()
    name, other = ("frames", "block_rows") if store == "raw" else ("recent", "frames")
    check_refused(frame_ring(16, 2, (1,), np.int64), first, f"The ring's '{name}' must have shape")
    check_refused(frame_ring(16, 2, (), np.float32), first, f"The ring's '{name}' must have shape")
    kinds = {"raw": CompressedFrames, "packed": FrameRing.__init__.__defaults__[0]}
    check_refused(FrameRing(16, 2, (), np.int64, kinds[store]), first, f"The ring's '{other}' must have shape")


def packed_ring(**settings):
    store = partial(CompressedFrames, **{"block_rows": 3, "chunk_bytes": 64} | settings)  # noqa: F811
    ring = FrameRing(16, 2, (), np.int64, store)
    play(ring, A, 8, lane=0)
    play(ring, B, 8, lane=1)
    return ring, FrameRing(16, 2, (), np.int64, store)


def test_compressed_blocks_of_another_size_are_refused():
    ring, copy = packed_ring()
    changes = ring.get_changes()
    length = changes["length"]
    assert len(length) == 4 and length.max() <= 64
    check_refused(copy, {**changes, "block_rows": np.array(4)}, "A block must have 3 rows. Received: block_rows=4")
    check_refused(copy, {**changes, "length": length[1:]}, "The ring's 'length' must have shape (4,)")
    check_refused(copy, {**changes, "length": length * 0}, "must have 1 to 64 bytes. Received: length=0 to 0")
    check_refused(copy, {**changes, "length": length + 60}, "A block must have 1 to 64 bytes.")
    check_refused(copy, {**changes, "length": length - 1}, "The ring's 'compressed' must have shape")
    check_refused(copy, {**changes, "recent": changes["recent"][1:]}, "The ring's 'recent' must have shape (6,)")


def test_changes_that_find_no_memory_leave_the_ring_as_it_was_and_may_be_tried_again():
    limit = [1]  # chunk of two

    def refuse(bytes_held, rows_held):
        limit[0] -= 1
        if limit[0] < 0:
            raise MemoryError("enough")

    ring, _ = packed_ring()
    _, copy = packed_ring()
    copy.frames._on_growth = refuse
    changes = ring.get_changes()
    with pytest.raises(MemoryError, match="enough"):
        copy.apply_changes(changes)
    assert len(copy) == len(copy.frames) == 0 and not copy.age.any()
    limit[0] = 100
    copy.apply_changes(changes)
    assert sum(chunk.live for chunk in copy.frames._arena._chunks.values()) == 4
    check_same(copy, ring)
