"""Rings written from a script, whose observations are numbers: frame 3 of episode a is a3 = 103, of b it is 203."""

import numpy as np

from dqn_lab.replay.replay import Replay
from dqn_lab.replay.ring import FrameRing

A, B, C = 100, 200, 300  # first frames of three episodes


def make_ring(capacity: int, num_envs: int = 1) -> FrameRing:
    """Returns an empty ring whose observations are single numbers."""
    return FrameRing(capacity, num_envs, (), np.int64)


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


def snapshot(ring: FrameRing) -> dict[str, bytes]:
    """Returns the bytes of all arrays."""
    return {name: array.tobytes() for name, array in ring.get_state().items()}
