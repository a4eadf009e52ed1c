"""The ring together with how it is read: stacks, n-step windows, draws."""

import numpy as np

from dqn_lab.replay.ring import FrameRing
from dqn_lab.replay.samplers import UniformSampler
from dqn_lab.replay.windows import n_step_window, stack_index


class Replay:
    """What the hooks of a sequence read from. Every read is one vectorised gather and changes nothing.

    Args:
        ring: the stored rows.
        span: rows that a state shows.
        n_step: most steps that a transition looks ahead.
    """

    def __init__(self, ring: FrameRing, *, span: int, n_step: int) -> None:
        self.ring = ring
        self.span = span
        self.n_step = n_step
        self.sampler = UniformSampler(ring, span=span, n_step=n_step)

    def observations(self, index: np.ndarray, span: int = 1) -> np.ndarray:
        """Returns the last `span` observations up to each row, padded with the episode's first one.

        Args:
            index: rows, [B].
            span: how many observations, oldest first.

        Returns:
            [B, span, ...]; a view whose memory lies span first.
        """
        rows = self.ring.slot(stack_index(self.ring, index, span))  # [span, B]
        return np.moveaxis(self.ring.frames[rows], 0, 1)  # [B, span, ...]

    def rewards(self, index: np.ndarray) -> np.ndarray:
        """Returns the raw rewards of the actions taken in these rows. [B] -> [B] float64"""
        return self.ring.reward[self.ring.slot(index)]

    def actions(self, index: np.ndarray) -> np.ndarray:
        """Returns the actions taken in these rows. [B] -> [B] int32"""
        return self.ring.action[self.ring.slot(index)]

    def terminals(self, index: np.ndarray) -> np.ndarray:
        """Tells which rows' actions were terminal for the learner. [B] -> [B] bool"""
        return self.ring.terminal[self.ring.slot(index)]

    def windows(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns length (1..n) and terminal of the windows that begin in these rows. [B] -> [B], [B]"""
        return n_step_window(self.ring, index, self.n_step)

    def sample(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """Draws rows uniformly over all that may be drawn; see `UniformSampler`. -> [count]"""
        return self.sampler.sample(count, generator)
