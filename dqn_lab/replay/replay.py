"""The ring together with how it is read: stacks, n-step windows, draws."""

import numpy as np

from dqn_lab.replay.ring import NO_ACTION, FrameRing
from dqn_lab.replay.samplers import UniformSampler
from dqn_lab.replay.windows import n_step_window, stack_index


class Replay:
    """What the hooks of a sequence read from. Every read is one vectorised gather and changes nothing.

    A row that was overwritten, or is yet to come, is refused: its slot holds another one.

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

        Raises:
            ValueError: `span` is above that of a state, by which rows are drawn; or an observation is not stored.
        """
        if not 1 <= span <= self.span:
            raise ValueError(
                f"A hook may read 1..{self.span} observations of a row, as many as get_states_start() says. "
                f"Received: span={span}"
            )
        self._refuse_missing(index)
        rows = stack_index(self.ring, index, span)  # [span, B]
        self._refuse_missing(rows[0])
        return np.moveaxis(self.ring.frames.read(rows), 0, 1)  # [B, span, ...]

    def rewards(self, index: np.ndarray) -> np.ndarray:
        """Returns the raw rewards of the actions taken in these rows. [B] -> [B] float64

        Raises:
            ValueError: a row is not stored.
        """
        return self._read(self.ring.reward, index)

    def actions(self, index: np.ndarray) -> np.ndarray:
        """Returns the actions taken in these rows. [B] -> [B] int32

        Raises:
            ValueError: a row is not stored, or no action was taken in it.
        """
        action = self._read(self.ring.action, index)  # [B]
        none = action == NO_ACTION  # [B]
        if none.any():
            raise ValueError(
                "No action is taken in a final observation, nor yet in a newest one. "
                f"Received: index={index[none].tolist()}"
            )
        return action

    def terminals(self, index: np.ndarray) -> np.ndarray:
        """Tells which rows' actions were terminal for the learner. [B] -> [B] bool

        Raises:
            ValueError: a row is not stored.
        """
        return self._read(self.ring.terminal, index)

    def windows(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns length (1..n) and terminal of the windows that begin in these rows. [B] -> [B], [B]"""
        return n_step_window(self.ring, index, self.n_step)

    def sample(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """Draws rows uniformly over all that may be drawn; see `UniformSampler`. -> [count]"""
        return self.sampler.sample(count, generator)

    def _read(self, column: np.ndarray, index: np.ndarray) -> np.ndarray:
        self._refuse_missing(index)
        return column[self.ring.slot(index)]

    def _refuse_missing(self, index: np.ndarray) -> None:
        stored = self.ring.is_stored(index)
        if not stored.all():
            raise ValueError(
                "Only rows that are stored can be read: none overwritten, none yet to come. "
                f"Received: index={index[~stored].tolist()}"
            )
