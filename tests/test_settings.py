"""Settings: numbers that fit each other, and a replay that fits into memory."""

import logging

import numpy as np
import pytest
from gymnasium.spaces import Box
from scripted_ring import A, make_ring, play

from dqn_lab import memory
from dqn_lab.replay.compression import CompressedFrames
from dqn_lab.replay.raw_frames import RawFrames
from dqn_lab.replay.replay import Replay
from dqn_lab.sequences import settings
from dqn_lab.sequences.settings import check_fill, check_growth, check_train_period, make_replay

FRAMES = Box(0, 255, (84, 84), np.uint8)
NUMBERS = Box(-1.0, 1.0, (4,), np.float32)


def replay_of(space=NUMBERS, num_envs=2, capacity=12, span=4, n_step=1, **compression):
    return make_replay(space, num_envs=num_envs, capacity=capacity, span=span, n_step=n_step, **compression)


# The train period.


@pytest.mark.parametrize(("period", "num_envs"), [(4, 1), (4, 2), (4, 4), (4, 8), (1, 3), (6, 3), (5, 5), (1, 1)])
def test_lanes_divide_the_period_or_are_a_multiple_of_it(period, num_envs):
    assert check_train_period(period, num_envs) == period


@pytest.mark.parametrize(("period", "num_envs"), [(4, 3), (4, 6), (6, 4), (3, 2), (2, 3)])
def test_steps_and_updates_that_cannot_take_turns_evenly_are_refused(period, num_envs):
    with pytest.raises(ValueError) as error:
        check_train_period(period, num_envs)
    assert str(error.value) == (
        "`num_envs` must divide `train_period_steps` or be a multiple of it. "
        f"Received: num_envs={num_envs}, train_period_steps={period}"
    )


def test_the_period_is_an_integer_of_at_least_1():
    with pytest.raises(ValueError, match="`train_period_steps` must be at least 1. Received: train_period_steps=0"):
        check_train_period(0, 1)
    with pytest.raises(TypeError, match="`train_period_steps` must be an integer. Received: train_period_steps=4.0"):
        check_train_period(4.0, 1)


# The initial fill.


def test_a_fill_reaches_from_a_window_in_every_lane_to_the_capacity():
    replay = replay_of(num_envs=2, capacity=16, n_step=3)
    assert [check_fill(steps, replay) for steps in (6, 7, 16)] == [6, 7, 16]


def test_a_fill_above_the_capacity_is_refused():
    with pytest.raises(ValueError) as error:
        check_fill(13, replay_of(capacity=12))
    assert str(error.value) == (
        "`replay_min_steps` must not exceed `replay_capacity_steps`. "
        "Received: replay_min_steps=13, replay_capacity_steps=12"
    )


def test_a_fill_too_short_for_a_window_in_every_lane_is_refused():
    with pytest.raises(ValueError) as error:
        check_fill(5, replay_of(num_envs=2, capacity=16, n_step=3))
    assert str(error.value) == (
        "`replay_min_steps` must give every lane n_step steps. Received: replay_min_steps=5, num_envs=2, n_step=3"
    )


def test_a_fill_is_an_integer_of_at_least_1():
    with pytest.raises(ValueError, match="`replay_min_steps` must be at least 1. Received: replay_min_steps=0"):
        check_fill(0, replay_of())
    with pytest.raises(TypeError, match="`replay_min_steps` must be an integer. Received: replay_min_steps='9'"):
        check_fill("9", replay_of())


@pytest.mark.parametrize("n_step", [1, 2, 5])
def test_the_shortest_fill_can_be_drawn_from(n_step):
    ring = make_ring(4 + n_step + 2)
    play(ring, A, n_step + 1)  # n steps
    replay = Replay(ring, span=4, n_step=n_step)
    assert check_fill(n_step, replay) == n_step
    assert replay.sample(2, np.random.default_rng(0)).tolist() == [0, 0]


# The replay.


def test_the_replay_is_made_as_asked():
    replay = replay_of(FRAMES, num_envs=2, capacity=20, span=4, n_step=3)
    assert (replay.ring.capacity, replay.ring.num_envs, replay.span, replay.n_step) == (20, 2, 4, 3)
    assert (replay.sampler.span, replay.sampler.n_step) == (4, 3)
    assert (replay.ring.frames.array.shape, replay.ring.frames.dtype) == ((20, 84, 84), np.uint8)
    assert replay_of(NUMBERS).ring.frames.dtype == np.float32


@pytest.mark.parametrize(("num_envs", "span", "n_step", "least"), [(1, 1, 1, 3), (1, 4, 1, 6), (2, 4, 3, 16)])
def test_the_least_capacity_is_a_transition_and_one_row_more_in_every_lane(num_envs, span, n_step, least):
    arguments = {"num_envs": num_envs, "span": span, "n_step": n_step}
    assert replay_of(capacity=least, **arguments).ring.capacity == least
    with pytest.raises(ValueError) as error:
        replay_of(capacity=least - num_envs, **arguments)
    assert str(error.value) == (
        f"`replay_capacity_steps` must be a multiple of num_envs = {num_envs} and at least {least}, to hold a state of "
        f"{span} observation(s) and a window of {n_step} step(s) in every lane. "
        f"Received: replay_capacity_steps={least - num_envs}"
    )


def test_a_capacity_that_lanes_do_not_divide_is_refused():
    with pytest.raises(ValueError, match="multiple of num_envs = 2 and at least 12.*replay_capacity_steps=13"):
        replay_of(num_envs=2, capacity=13)


@pytest.mark.parametrize(
    ("name", "text"), [("span", r"get_states_start\(\)"), ("n_step", "n_step"), ("capacity", "replay_capacity_steps")]
)
def test_numbers_are_integers_of_at_least_1(name, text):
    with pytest.raises(ValueError, match=f"`{text}` must be at least 1. Received: {text}=0"):
        replay_of(**{name: 0})
    with pytest.raises(TypeError, match=f"`{text}` must be an integer. Received: {text}=4.5"):
        replay_of(**{name: 4.5})


# Memory.


def tape(monkeypatch, available=2**40):
    """Records what is said, asked and allocated, in order; nothing is allocated."""
    said = []
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: said.append("asked") or available)
    monkeypatch.setattr(settings._log, "info", lambda text: said.append(text))

    class Ring(settings.FrameRing):
        def __init__(self, *arguments):
            said.append("allocated")

    monkeypatch.setattr(settings, "FrameRing", Ring)
    return said


def written(replay, steps):
    """Fills a replay with pictures that hardly change, in every lane."""
    ring, picture = replay.ring, np.random.default_rng(0).integers(256, size=(replay.ring.num_envs, 84, 84))
    none = [False] * ring.num_envs
    for number in range(steps // ring.num_envs):
        if len(ring):
            ring.record([0] * ring.num_envs, [0.0] * ring.num_envs, none, none)
        picture[:, number % 84, number % 80] ^= 255
        ring.append(picture)
    return replay


def test_the_memory_is_said_before_it_is_allocated(monkeypatch):
    said = tape(monkeypatch)
    replay_of(FRAMES, num_envs=4, capacity=1_000_000)
    assert said == [
        "Replay memory: 6.57 GiB of frames + 0.02 GiB of columns for 1,000,000 steps.",
        "asked",
        "allocated",
    ]


def test_the_memory_is_said_through_the_packages_logger(caplog):
    with caplog.at_level(logging.INFO, "dqn_lab"):
        replay_of(NUMBERS, num_envs=1, capacity=100)
    assert caplog.record_tuples == [
        ("dqn_lab", logging.INFO, "Replay memory: 1.56 KiB of frames + 1.76 KiB of columns for 100 steps.")
    ]


@pytest.mark.case("B014")
def test_more_than_the_memory_is_refused_before_anything_is_allocated(monkeypatch):
    said = tape(monkeypatch, available=2**30)
    with pytest.raises(ValueError) as error:
        replay_of(FRAMES, num_envs=4, capacity=1_000_000)
    text = str(error.value)
    assert text == (
        "Replay memory: 6.57 GiB of frames + 0.02 GiB of columns for 1,000,000 steps. "
        "The replay must fit into memory: it needs 6.59 GiB, and 1.00 GiB are available; "
        "replay_capacity_steps=130_000 would fit. Received: replay_capacity_steps=1000000"
    )
    assert "allocated" not in said
    said.clear()
    replay_of(FRAMES, num_envs=4, capacity=130_000)
    assert "allocated" in said


def test_the_memory_asked_for_is_what_the_ring_takes(monkeypatch):
    asked = []
    monkeypatch.setattr(settings, "check_memory", lambda *numbers, multiple: asked.append((*numbers, multiple)))
    ring = replay_of(FRAMES, num_envs=2, capacity=40).ring
    lanes = ring.written.nbytes + ring.ending.nbytes + ring.final.nbytes
    assert asked == [(ring.nbytes - lanes, 40, (ring.nbytes - lanes) / 40, 2)]


# Compression.


def test_the_replay_is_compressed_only_where_that_is_asked_for():
    assert isinstance(replay_of(FRAMES).ring.frames, RawFrames)
    assert isinstance(replay_of(FRAMES, compression="none").ring.frames, RawFrames)
    packed = written(replay_of(FRAMES, capacity=200, compression="lz4"), 200)
    raw = written(replay_of(FRAMES, capacity=200), 200)
    assert isinstance(packed.ring.frames, CompressedFrames)
    index = np.arange(20, 200)
    np.testing.assert_array_equal(packed.observations(index, 4), raw.observations(index, 4))


@pytest.mark.parametrize("compression", ["gzip", "LZ4", None, True, ""])
def test_another_compression_is_refused(compression):
    with pytest.raises(ValueError) as error:
        replay_of(compression=compression)
    assert str(error.value) == (
        f"`replay_compression` must be one of none, lz4. Received: replay_compression={compression!r}"
    )


def test_the_estimate_of_compressed_frames_is_said_beside_the_bound_and_checked_before_anything_is_allocated(
    monkeypatch,
):
    said = tape(monkeypatch, available=int(0.6 * 2**30))
    needed = (
        "Replay memory: about 0.56 GiB of compressed frames (at most 6.57 GiB) + 0.02 GiB of columns "
        "for 1,000,000 steps."
    )
    replay_of(FRAMES, num_envs=4, capacity=1_000_000, compression="lz4")
    assert said == [needed, "asked", "allocated"]
    said.clear()
    with pytest.raises(ValueError) as error:
        replay_of(FRAMES, num_envs=4, capacity=2_000_000, compression="lz4")
    assert "allocated" not in said
    assert str(error.value).endswith(
        "of columns for 2,000,000 steps. The replay must fit into memory: it needs 1.15 GiB, and 0.60 GiB are "
        "available; replay_capacity_steps=930_000 would fit. Received: replay_capacity_steps=2000000"
    )


def test_small_observations_are_not_estimated_above_their_size(monkeypatch):
    said = tape(monkeypatch)
    replay_of(NUMBERS, num_envs=1, capacity=100, compression="lz4")
    assert said[0] == (
        "Replay memory: about 1.56 KiB of compressed frames (at most 1.56 KiB) + 1.76 KiB of columns for 100 steps."
    )


def test_a_fill_is_measured_and_said_in_one_line(caplog, monkeypatch):
    replay = written(replay_of(FRAMES, num_envs=2, capacity=1_000_000, compression="lz4"), 400)
    asked = []
    monkeypatch.setattr(settings, "check_memory", lambda *numbers, multiple: asked.append((*numbers, multiple)))
    with caplog.at_level(logging.INFO, "dqn_lab"):
        check_growth(replay)
    per_step = replay.ring.frames.compressed_bytes_per_row + 18
    assert caplog.messages == [
        f"Replay memory: {per_step:.0f} B per step, measured over 400 steps; "
        f"{memory.describe_bytes(round(1_000_000 * per_step))} for 1,000,000 steps."
    ]
    assert asked == [(round(per_step * 999_600), 1_000_000, per_step, 2)]
    assert 450 < per_step < 1_000


def test_a_fill_that_shows_that_the_rest_will_not_fit_is_refused(monkeypatch):
    replay = written(replay_of(FRAMES, num_envs=2, capacity=1_000_000, compression="lz4"), 400)
    monkeypatch.setattr(CompressedFrames, "compressed_bytes_per_row", 982.0)
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 500_000_000)
    with pytest.raises(ValueError) as error:
        check_growth(replay)
    assert str(error.value) == (
        "Replay memory: 1000 B per step, measured over 400 steps; 0.93 GiB for 1,000,000 steps. "
        "The replay must fit into memory: it needs 0.93 GiB, and 0.47 GiB are available; "
        "replay_capacity_steps=450_000 would fit. Received: replay_capacity_steps=1000000"
    )
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 999_600_000)
    assert check_growth(replay) is None


def test_nothing_is_measured_where_nothing_is_compressed(monkeypatch):
    replays = replay_of(FRAMES, capacity=100), replay_of(FRAMES, capacity=100, compression="lz4")
    said = tape(monkeypatch)
    for replay, steps in zip(replays, (100, 32), strict=True):
        check_growth(written(replay, steps))
    assert said == []
    check_growth(written(replays[1], 2))  # each lane's first 16 rows are compressed when its 17th comes
    assert any("measured over 34 steps" in text for text in said)


def test_a_compressed_replay_that_grows_leaves_the_machine_some_memory(monkeypatch):
    replay = replay_of(FRAMES, num_envs=2, capacity=1_000, compression="lz4")
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: 200 * 2**20)
    with pytest.raises(
        MemoryError, match=r"must leave 0\.25 GiB of memory: 0\.20 GiB are.*holds 32 steps in 0\.22 MiB;"
    ):
        written(replay, 100)
    assert len(replay.ring) == 32
    replay.ring.check_valid()
