"""Which rows belong to the changes between two checkpoints of a ring, and how long those changes matter."""

import numpy as np

_OPEN_ROWS = 2  # an action is recorded in a lane's newest row; abandoning an episode ends it in the row before


def first_changed(since: np.ndarray, written: np.ndarray, slots: int) -> np.ndarray:
    """Returns from which position on a lane's rows may differ from what they were, as far as they are stored.

        written   since = 6 then, 9 now; a ring of 8 slots, and one of 4
        position  0  1  2  3  4  5 | 6  7  8
        changed               x  x   x  x  x       4: the newest two rows of then may have changed
                                 x   x  x  x       5: position 4 is overwritten

    Args:
        since, written: rows written to each lane, then and now, [num_envs].
        slots: rows that a lane keeps.

    Returns:
        Positions, [num_envs].
    """
    return np.maximum(since - _OPEN_ROWS, np.maximum(written - slots, 0))


def index_between(first: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Returns the indices of the positions `first` to `stop - 1` of each lane, ascending. [num_envs] each -> [K]"""
    num_envs = len(first)
    ranges = [np.arange(*each) for each in zip(first.tolist(), stop.tolist(), strict=True)]
    return np.sort(np.concatenate([each * num_envs + lane for lane, each in enumerate(ranges)]))


def still_needed(written_then: np.ndarray, written_now: np.ndarray, slots: int) -> bool:
    """Tells whether changes hold a row that is still stored; if not, nothing is lost without them and those before.

    Args:
        written_then: the `written` of the changes, [num_envs].
        written_now: that of the oldest checkpoint that is to be loaded again, [num_envs].
        slots: rows that a lane keeps.
    """
    return bool(np.any(written_then > np.maximum(written_now - slots, 0)))
