"""Transitions: what an update learns from, built from stored rows by a sequence's hooks."""

from collections.abc import Callable

import numpy as np

from dqn_lab.replay.replay import Replay

Hook = Callable[[np.ndarray], np.ndarray]


def build_transitions(
    replay: Replay, index: np.ndarray, gamma: float, get_feature: Hook, get_reward: Hook
) -> dict[str, np.ndarray]:
    """Builds the transitions that begin in these rows.

    A window of rewards r_0 .. r_{h-1}, h <= n, gives (Sutton and Barto 2018, eq. 7.1)

        reward   = sum over k of gamma^k r_k
        discount = gamma^h, or 0 if the window ends in a terminal

    so that the target is reward + discount * value(next_state), whatever the window's length.

    Args:
        replay: where the rows lie.
        index: first rows, [B].
        gamma: discount per step.
        get_feature: rows -> states, called once for the states and the next states together: they share frames, which
            a compressed replay then unpacks once.
        get_reward: rows -> the learner's rewards, called once per step of the window.

    Returns:
        state [B, ...], action [B] int32, reward [B] float32, discount [B] float32, next_state [B, ...],
        weight [B] float32, index [B] int64.

    Raises:
        ValueError: no action was taken in a row, or something that its transition needs is not stored.
    """
    index = np.asarray(index, np.int64)  # [B]
    length, terminal = replay.windows(index)  # [B], [B]
    lanes = replay.ring.num_envs
    reward = np.zeros(len(index))  # [B]
    for depth in range(int(length.max(initial=0))):
        row = index + np.minimum(depth, length - 1) * lanes  # [B], a row of the window even where it has ended
        reward += np.where(depth < length, gamma**depth * get_reward(row), 0.0)  # [B]
    states = get_feature(np.concatenate([index, index + length * lanes]))  # [2 * B, ...]
    return {
        "state": states[: len(index)],
        "action": replay.actions(index),
        "reward": reward.astype(np.float32),
        "discount": np.where(terminal, 0.0, gamma**length).astype(np.float32),
        "next_state": states[len(index) :],
        "weight": np.ones(len(index), np.float32),
        "index": index,
    }
