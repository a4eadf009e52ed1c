"""Rings written from a script, whose observations are numbers: frame 3 of episode a is a3 = 103, of b it is 203."""

from functools import partial

import numpy as np
import pytest

from dqn_lab.replay.compression import CompressedFrames
from dqn_lab.replay.raw_frames import RawFrames
from dqn_lab.replay.replay import Replay
from dqn_lab.replay.ring import FrameRing

A, B, C = 100, 200, 300  # first frames of three episodes

# Blocks and chunks so small that a ring of some rows has many of them.
STORES = {"raw": RawFrames, "packed": partial(CompressedFrames, block_rows=3, chunk_bytes=64)}
_store = STORES["raw"]


@pytest.fixture(scope="module", params=list(STORES))
def store(request):
    """Lets a module's rings keep their observations in one store after the other."""
    global _store
    _store = STORES[request.param]
    yield request.param
    _store = STORES["raw"]


def frame_ring(capacity: int, num_envs: int, shape: tuple[int, ...], dtype) -> FrameRing:
    """Returns an empty ring with the store of the moment."""
    return FrameRing(capacity, num_envs, shape, dtype, _store)


def make_ring(capacity: int, num_envs: int = 1) -> FrameRing:
    """Returns an empty ring whose observations are single numbers."""
    return frame_ring(capacity, num_envs, (), np.int64)


def play(ring: FrameRing, first: int, count: int, *, rewards=None, end: str | None = None, terminal=(), lane=0):
    """Writes `count` frames of one episode: its number, the next one, and so on, with an action between two of them.

    The action taken in frame 103 is 3, its reward 0 unless given. `end` says what the last action brought:
    "terminated", "truncated" or None; `terminal` names actions that are terminal in the midst of the episode.
    """
    lanes = np.array([lane])
    ring.append(np.array([first]), lanes)
    for number in range(count - 1):
        last = number == count - 2
        is_terminal = number in terminal or (last and end == "terminated")
        reward = rewards[number] if rewards is not None else 0.0
        ring.record([number], [reward], [is_terminal], [last and end is not None], lanes)
        ring.append(np.array([first + number + 1]), lanes)


def drawable_slots(ring: FrameRing, span: int, n_step: int = 1) -> list[int]:
    """Returns the slots that may be drawn, in order."""
    return sorted(ring.slot(Replay(ring, span=span, n_step=n_step).sampler.drawable()).tolist())


def stored_index(ring: FrameRing) -> np.ndarray:
    """Returns the indices of all stored rows, lane by lane."""
    lanes = range(ring.num_envs)
    positions = [np.arange(ring.oldest_position[lane], ring.written[lane]) for lane in lanes]
    return np.concatenate([positions[lane] * ring.num_envs + lane for lane in lanes])


def frames_by_slot(ring: FrameRing) -> list:
    """Returns the observations that are stored, each in its slot, and zeros where there is none."""
    frames, index = np.zeros((ring.capacity, *ring.frames.shape), ring.frames.dtype), stored_index(ring)
    frames[ring.slot(index)] = ring.frames.read(index)
    return frames.tolist()


def state_arrays(state: dict, within: str = "") -> dict[str, np.ndarray]:
    """Returns all arrays of a state, those of dictionaries inside it too."""
    arrays = {}
    for name, value in state.items():
        path = f"{within}{name}"
        arrays |= state_arrays(value, f"{path}/") if isinstance(value, dict) else {path: value}
    return arrays


def snapshot(ring: FrameRing) -> dict[str, bytes]:
    """Returns the bytes of all arrays."""
    return {name: array.tobytes() for name, array in state_arrays(ring.get_state()).items()}
