"""Which rows a stack and an n-step window span."""

import numpy as np

from dqn_lab.replay.ring import NO_ACTION, FrameRing


def stack_index(ring: FrameRing, index: np.ndarray, span: int) -> np.ndarray:
    """Returns the rows that the stacks ending at `index` show, oldest first.

    Before an episode's first observation the stack repeats it, as it does when acting:

        lane   ... a6  a7 | b0  b1  b2 ...
        span 4 at b1:       b0  b0  b0  b1

    Args:
        index: newest row of each stack, [B].
        span: rows in a stack.

    Returns:
        Indices, [span, B].
    """
    back = np.arange(span - 1, -1, -1)[:, None]  # [span, 1]
    inside = np.minimum(back, ring.age[ring.slot(index)])  # [span, B]
    return index - inside * ring.num_envs  # [span, B]


def n_step_window(ring: FrameRing, index: np.ndarray, n_step: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns how far the n-step windows that begin at `index` reach, and which of them end in a terminal.

    A window ends after n steps, or earlier with a terminal step or with its episode, whichever comes first:

        n = 3, T terminal:   r  r  r            length 3, bootstrap from the 4th observation
                                r  r  T         length 3, no bootstrap
                                      T         length 1, no bootstrap

    Args:
        index: first step of each window, [B].
        n_step: n, the most steps in a window.

    Returns:
        length [B] (1..n) and terminal [B].
    """
    length = np.zeros(index.shape, np.int64)  # [B]
    terminal = np.zeros(index.shape, bool)  # [B]
    running = np.ones(index.shape, bool)  # [B]
    for depth in range(n_step):
        slot = ring.slot(index + depth * ring.num_envs)  # [B]
        length += running
        terminal |= running & ring.terminal[slot]
        running &= ~(ring.terminal[slot] | ring.episode_end[slot])
    return length, terminal


def is_drawable(ring: FrameRing, index: np.ndarray, span: int, n_step: int) -> np.ndarray:
    """Tells which rows may be drawn as the state of a transition.

    A row may be drawn if it is still stored and has its action, if every row that its stack shows is still stored,
    and if its window is complete: the observation it bootstraps from, or that ended it, is stored too.

        slots      b3   b4   b5   a3   a4   b0   b1   b2       capacity 8, span 4, b5 the newest row
        drawable    X    X    .    .    .    X    X    X       a3 lacks a0..a2, a4 is final, b5 has no action yet

    Args:
        index: rows, [B], of any age.
        span: rows that a state shows.
        n_step: most steps in a window.

    Returns:
        bool, [B].
    """
    length, _ = n_step_window(ring, index, n_step)  # [B]
    first_shown = stack_index(ring, index, span)[0]  # [B]
    complete = ring.is_stored(first_shown) & ring.is_stored(index + length * ring.num_envs)  # [B]
    return complete & (ring.action[ring.slot(index)] != NO_ACTION)  # [B]
