"""Drawing of rows from the ring."""

import numpy as np

from dqn_lab.replay.ring import FrameRing
from dqn_lab.replay.windows import is_drawable

_ROUNDS = 64  # half of a long ring is drawable even if every episode is one step: odds of 2^-64 to be left undrawn


class UniformSampler:
    """Draws rows uniformly, with replacement, over exactly the set that may be drawn.

    Rows are drawn over all that is stored and drawn anew where they may not be used, so that the cost depends on the
    number of rows drawn, not on the capacity. What is still open after some rounds, in a ring that holds hardly
    anything drawable, is drawn from the full list; that changes the cost and not the distribution.

    Args:
        ring: where to draw from.
        span: rows that a state shows.
        n_step: most steps in a window.
    """

    def __init__(self, ring: FrameRing, *, span: int, n_step: int) -> None:
        self.ring = ring
        self.span = span
        self.n_step = n_step

    def sample(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """Draws `count` rows.

        Args:
            count: number of rows.
            generator: where the randomness comes from; it moves.

        Returns:
            Indices, [count].

        Raises:
            ValueError: nothing that is stored makes a complete transition.
        """
        index = np.full(count, -1, np.int64)
        undrawn = np.arange(count)
        for _ in range(_ROUNDS if len(self.ring) else 0):
            drawn = self._draw_stored(len(undrawn), generator)
            good = is_drawable(self.ring, drawn, self.span, self.n_step)
            index[undrawn] = drawn
            undrawn = undrawn[~good]
            if not len(undrawn):
                return index
        index[undrawn] = generator.choice(self._drawable_or_refuse(), len(undrawn))
        return index

    def drawable(self) -> np.ndarray:
        """Returns every row that may be drawn, in O(capacity). [D]"""
        stored = self._stored_index(np.arange(len(self.ring)))
        return stored[is_drawable(self.ring, stored, self.span, self.n_step)]

    def _draw_stored(self, count: int, generator: np.random.Generator) -> np.ndarray:
        return self._stored_index(generator.integers(len(self.ring), size=count))

    def _stored_index(self, rank: np.ndarray) -> np.ndarray:
        """Numbers the stored rows lane by lane, each lane's oldest first. [B] -> [B]"""
        ends = np.cumsum(self.ring.stored)  # [num_envs]
        lane = np.searchsorted(ends, rank, side="right")  # [B]
        begin = ends[lane] - self.ring.stored[lane]  # [B]
        position = self.ring.oldest_position[lane] + rank - begin  # [B]
        return position * self.ring.num_envs + lane  # [B]

    def _drawable_or_refuse(self) -> np.ndarray:
        drawable = self.drawable()
        if not len(drawable):
            raise ValueError(
                "There are not enough stored steps to draw from: a transition needs a state of "
                f"{self.span} observation(s) and a window of up to {self.n_step} step(s). "
                f"Received: {len(self.ring)} stored row(s)"
            )
        return drawable
