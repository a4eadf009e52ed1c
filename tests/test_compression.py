"""Compressed frames: read back bit for bit, in memory that stays bounded, each block unpacked once per read."""

import math
from functools import partial

import lz4.block
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_ring import state_arrays

from dqn_lab.replay import arena
from dqn_lab.replay.compression import CompressedFrames
from dqn_lab.replay.raw_frames import RawFrames
from dqn_lab.replay.ring import FrameRing

SHAPES = ((), (1,), (5,), (3, 4), (2, 3, 2))
DTYPES = (np.uint8, np.bool_, np.int64, np.float32, np.float64)


class Twice:
    """The same observations, raw and packed."""

    def __init__(self, capacity, num_envs, shape, dtype, **settings):
        self.raw = RawFrames(capacity, num_envs, shape, dtype)
        self.packed = CompressedFrames(capacity, num_envs, shape, dtype, **settings)
        self.written = np.zeros(num_envs, int)
        self.capacity, self.num_envs = capacity, num_envs

    def append(self, lanes, frames):
        lanes = np.asarray(lanes, int)
        for store in (self.raw, self.packed):
            store.append(self.written[lanes] * self.num_envs + lanes, frames)
        self.written[lanes] += 1

    def stored(self):
        slots = self.capacity // self.num_envs
        ranges = [np.arange(max(count - slots, 0), count) for count in self.written]
        return np.concatenate([each * self.num_envs + lane for lane, each in enumerate(ranges)])

    def check_agrees(self, index):
        raw, packed = self.raw.read(index), self.packed.read(index)
        assert (packed.shape, packed.dtype) == (raw.shape, raw.dtype)
        assert packed.tobytes() == raw.tobytes()  # of every bit: a NaN's too, and the sign of a zero


def noise(generator, count, shape, dtype):
    bits = generator.integers(256, size=(count, *shape, np.dtype(dtype).itemsize), dtype=np.uint8)
    return bits[..., 0] % 2 == 0 if dtype is np.bool_ else bits.view(dtype)[..., 0]


@st.composite
def histories(draw):
    num_envs = draw(st.integers(1, 3))
    subsets = st.lists(st.integers(0, num_envs - 1), unique=True, max_size=num_envs)
    return {
        "capacity": num_envs * draw(st.integers(2, 20)),
        "num_envs": num_envs,
        "shape": draw(st.sampled_from(SHAPES)),
        "dtype": draw(st.sampled_from(DTYPES)),
        "block_rows": draw(st.integers(1, 6)),
        "chunk_bytes": draw(st.sampled_from([1, 100, 1_000])),
    }, draw(st.lists(subsets, max_size=80))


@given(histories(), st.integers(0, 2**32))
def test_what_is_read_is_what_was_written_bit_for_bit(history, seed):
    settings, subsets = history
    both, generator = Twice(**settings), np.random.default_rng(seed)
    for lanes in subsets:
        frames = noise(generator, len(lanes), settings["shape"], settings["dtype"])
        both.append(lanes, frames if generator.random() < 0.5 else np.zeros_like(frames))
        if len(both.stored()):
            both.check_agrees(generator.choice(both.stored(), (3, 5)))
    both.check_agrees(both.stored())


@pytest.mark.parametrize("slots", [15, 16, 17, 31, 32, 33, 50])
def test_frames_are_read_back_at_every_wrap_position(slots):
    both, generator = Twice(2 * slots, 2, (84, 84), np.uint8), np.random.default_rng(0)
    picture = noise(generator, 1, (84, 84), np.uint8)[0]
    for number in range(3 * slots + 20):
        picture[number % 84] = number % 256
        lanes = [0, 1] if number % 3 else [1]  # out of step with each other
        both.append(lanes, np.stack([picture, picture.T])[: len(lanes)])
        both.check_agrees(generator.choice(both.stored(), 8))
    both.check_agrees(generator.permutation(both.stored()))


def test_nothing_is_read_where_nothing_is_asked_for():
    both = Twice(8, 1, (3,), np.float32, block_rows=2)
    both.append([0], np.ones((1, 3)))
    both.append([], np.ones((0, 3)))
    assert both.packed.read(np.zeros((4, 0), int)).shape == (4, 0, 3)


def test_values_are_cast_as_an_array_casts_them():
    both = Twice(4, 1, (2,), np.float32, block_rows=1)
    for number in range(3):
        both.append([0], np.array([[0.1, number]], np.float64))
    both.check_agrees(np.array([0, 1, 2]))


def test_each_block_is_unpacked_once_however_many_of_its_observations_are_asked_for(monkeypatch):
    both = Twice(200, 2, (4,), np.uint8, block_rows=10)
    for number in range(35):
        both.append([0, 1], np.full((2, 4), number))
    unpacked, decompress = [], lz4.block.decompress
    monkeypatch.setattr(lz4.block, "decompress", lambda *a, **k: unpacked.append(1) or decompress(*a, **k))
    both.check_agrees(np.arange(50, 70))  # positions 25..34 are kept raw
    assert len(unpacked) == 0
    both.check_agrees(np.array([[0, 2, 4], [2, 0, 18], [69, 60, 16]]))
    assert len(unpacked) == 1  # positions 0..9 of lane 0, and two that are raw
    both.check_agrees(np.array([0, 1, 2, 3, 0]))
    assert len(unpacked) == 1 + 2
    both.check_agrees(both.stored())
    assert len(unpacked) == 1 + 2 + 6


def empty_one(**settings):
    return CompressedFrames(24, 2, (9,), np.uint8, block_rows=2, chunk_bytes=99, **settings)


# Memory.


def test_pictures_that_change_little_take_little():
    frames, generator = CompressedFrames(2_000, 1, (84, 84), np.uint8), np.random.default_rng(0)
    picture = noise(generator, 1, (84, 84), np.uint8)
    for number in range(2_000):
        picture[0, number % 80 : number % 80 + 4, 40:44] ^= 255
        frames.append(np.array([number]), picture)
    assert frames.compressed_bytes_per_row < 7_056 / 16 + 100  # once per block, and what moved
    assert frames.nbytes < 2_000 * 600 + 16 * 7_056


def test_noise_takes_hardly_more_than_raw():
    both, generator = Twice(320, 1, (84, 84), np.uint8), np.random.default_rng(0)
    for _ in range(400):
        both.append([0], noise(generator, 1, (84, 84), np.uint8))
    both.check_agrees(both.stored())
    assert 7_056 < both.packed.compressed_bytes_per_row < 1.01 * 7_056
    assert both.packed.nbytes < 1.01 * (400 + 16) * 7_056


def test_a_block_larger_than_a_chunk_makes_chunks_larger():
    both, generator = Twice(12, 1, (100,), np.uint8, block_rows=3, chunk_bytes=64), np.random.default_rng(0)
    for _ in range(40):
        both.append([0], noise(generator, 1, (100,), np.uint8))
    both.check_agrees(both.stored())


def test_the_bytes_are_those_of_all_that_is_held():
    frames = CompressedFrames(60, 2, (10,), np.uint8, block_rows=5)
    assert math.isnan(frames.compressed_bytes_per_row)
    blocks = 2 * 7  # 30 consecutive rows of a lane lie in 7 blocks of 5 at the most
    fixed = 2 * 8 + 2 * 5 * 10 + blocks * (8 + 4 + 4)  # newest positions, raw rows, where blocks lie
    assert frames.nbytes == fixed
    for number in range(12):
        frames.append(np.array([2 * number, 2 * number + 1]), np.full((2, 10), number))
    (chunk,) = frames.get_state()["chunks"].values()
    assert frames.nbytes == fixed + len(chunk)
    assert frames.compressed_bytes_per_row == len(chunk) / 20
    assert (FrameRing(60, 2, (10,), np.uint8).nbytes, len(frames)) == (60 * (10 + 18) + 2 * (8 + 1 + 1), 24)


def test_memory_is_bounded_however_often_the_ring_wraps_and_lanes_drift():
    grown, generator = [], np.random.default_rng(0)
    both = Twice(
        60, 3, (40,), np.uint8, block_rows=4, chunk_bytes=400, on_growth=lambda held, rows: grown.append((held, rows))
    )
    counts = []
    for number in range(3_000):
        lanes = [0, 1, 2] if number % 10 == 0 else [0, 1]  # lane 2 is ten times as slow
        both.append(lanes, noise(generator, len(lanes), (40,), np.uint8))
        counts.append(len(grown))
    both.check_agrees(both.stored())
    assert max(rows for _, rows in grown) == len(both.packed) == 60
    assert counts[1_000] == counts[-1]  # as often as a lane of the least pace needs to wrap
    assert both.packed.nbytes <= counts[-1] * 400 + 1_000


def test_a_full_chunk_never_changes_and_its_number_never_comes_again():
    frames, generator, seen = empty_one(), np.random.default_rng(0), {}
    for number in range(300):
        frames.append(np.array([2 * number, 2 * number + 1]), noise(generator, 2, (9,), np.uint8))
        chunks = {int(serial): data for serial, data in frames.get_state()["chunks"].items()}
        for serial, data in chunks.items():
            before = seen.setdefault(serial, b"")
            full = serial < max(chunks)
            assert data.tobytes() == before if full and len(before) > 0 else data.tobytes().startswith(before)
            seen[serial] = data.tobytes()
    assert len(seen) > 40 > 10 > len(chunks)


# Growth.


class Limit:
    """Allows so many chunks."""

    def __init__(self, chunks):
        self.chunks, self.asked = chunks, []

    def __call__(self, bytes_held, rows_held):
        self.asked.append((bytes_held, rows_held))
        if len(self.asked) > self.chunks:
            raise MemoryError("enough")


def test_growth_is_announced_with_what_is_held_before_it_is_allocated(monkeypatch):
    limit = Limit(9)
    frames = CompressedFrames(100, 1, (50,), np.uint8, limit, block_rows=4, chunk_bytes=250)
    held = frames.nbytes
    allocated, lazy_zeros = [], arena.lazy_zeros

    def watched(shape, dtype):
        allocated.append(len(limit.asked))
        return lazy_zeros(shape, dtype)

    monkeypatch.setattr(arena, "lazy_zeros", watched)
    generator = np.random.default_rng(0)
    for number in range(13):
        frames.append(np.array([number]), noise(generator, 1, (50,), np.uint8))
    assert allocated == [1, 2, 3]
    block = len(frames.get_state()["chunks"]["0"])  # of 200 bytes of noise; one fits into a chunk
    assert limit.asked == [(held, 4), (held + block, 8), (held + 2 * block, 12)]


@pytest.mark.parametrize("chunks", range(6))
def test_growth_that_is_refused_leaves_a_ring_as_it_was_and_may_be_tried_again(chunks):
    """Two lanes pack at once; either may be the one that finds no memory."""
    limit, generator = Limit(chunks), np.random.default_rng(0)
    store = partial(CompressedFrames, on_growth=limit, block_rows=4, chunk_bytes=250)
    ring, twin = FrameRing(16, 2, (50,), np.uint8, store), FrameRing(16, 2, (50,), np.uint8)
    refused = 0
    for number in range(60):
        frames = noise(generator, 2, (50,), np.uint8)
        if number:
            for each in (ring, twin):
                each.record([number, 1], [1.0, 0.0], [False, False], [False, False])
        try:
            ring.append(frames)
        except MemoryError as error:
            assert str(error) == "enough"
            refused += 1
            check_same(ring, twin)
            limit.chunks = 100
            ring.append(frames)
        twin.append(frames)
        check_same(ring, twin)
    assert refused == 1


def check_same(ring, twin):
    """Checks that both hold the same rows; the refused one has lost and gained nothing."""
    ring.check_valid()
    stored = np.arange(twin.newest_index.max() + 1)
    stored = stored[twin.is_stored(stored)]
    columns, others = (state_arrays(each.get_state()) for each in (ring, twin))
    for name in others.keys() - {"frames"}:
        np.testing.assert_array_equal(columns[name], others[name])
    np.testing.assert_array_equal(ring.frames.read(stored), twin.frames.read(stored))


# State.


def filled():
    frames, generator = empty_one(), np.random.default_rng(0)
    for number in range(40):
        frames.append(np.array([2 * number, 2 * number + 1]), noise(generator, 2, (9,), np.uint8))
    return frames


def test_a_restored_store_shows_the_same_and_goes_on_alike():
    frames, copy, stored = filled(), empty_one(), np.arange(56, 80)
    copy.set_state(frames.get_state())
    generator = np.random.default_rng(1)
    for number in range(40, 100):
        np.testing.assert_array_equal(copy.read(stored), frames.read(stored))
        states = [state_arrays(each.get_state()) for each in (copy, frames)]
        assert states[0].keys() == states[1].keys()
        np.testing.assert_equal(*states)
        more, stored = noise(generator, 2, (9,), np.uint8), stored + 2
        for each in (copy, frames):
            each.append(np.array([2 * number, 2 * number + 1]), more)


def test_a_state_of_another_store_or_without_its_chunks_is_refused_and_changes_nothing():
    frames, state = empty_one(), filled().get_state()
    before = state_arrays(frames.get_state())
    raw = RawFrames(24, 2, (9,), np.uint8).get_state()
    other = CompressedFrames(24, 2, (9,), np.uint8, block_rows=3).get_state()
    for wrong, said in (
        (raw, r"The ring's 'newest' must have shape \(2,\) and dtype int64. Received: newest=None"),
        (None, "Received: newest=None"),
        (other, r"The ring's 'recent' must have shape \(2, 2, 9\).*Received: recent=\(\(2, 3, 9\), 'uint8'\)"),
        (
            {name: state[name] for name in state if name != "chunks"},
            r"Compressed observations must lie within their chunk. Received: chunks=\[\]",
        ),
        ({**state, "chunks": {k: v[:-1] for k, v in state["chunks"].items()}}, "must lie within their chunk"),
    ):
        with pytest.raises(ValueError, match=said):
            frames.set_state(wrong)
        np.testing.assert_equal(state_arrays(frames.get_state()), before)


def test_a_packed_state_is_refused_by_a_raw_store():
    with pytest.raises(ValueError, match=r"The ring's 'frames' must have shape \(24, 9\).*Received: frames=None"):
        RawFrames(24, 2, (9,), np.uint8).set_state(filled().get_state())


def test_a_restore_that_finds_no_memory_changes_nothing():
    frames = empty_one(on_growth=Limit(1))
    before = state_arrays(frames.get_state())
    with pytest.raises(MemoryError, match="enough"):
        frames.set_state(filled().get_state())
    np.testing.assert_equal(state_arrays(frames.get_state()), before)


def test_packing_is_of_the_block_that_is_complete(monkeypatch):
    packed, compress = [], lz4.block.compress
    monkeypatch.setattr(lz4.block, "compress", lambda block, *a, **k: packed.append(block.tolist()) or compress(block))
    frames = CompressedFrames(12, 1, (), np.int64, block_rows=3)
    for number in range(10):
        frames.append(np.array([number]), np.array([number]))
    assert packed == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
