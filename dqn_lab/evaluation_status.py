"""How far an evaluation is, for a status line: what its games have come to, told twice a second."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

import numpy as np

_REDRAW_SECONDS = 0.5


class EvaluationStatus:
    """Counts the games of an evaluation as they end: `evaluate(twin, **limits, watch=EvaluationStatus(...))`.

    Lanes play beside each other, so of the last games it may count some that the result won't: it never tells more
    than was asked for.

    Args:
        twin: that plays.
        limits: of the evaluation, `num_episodes` and `num_max_iter`; what is finite is counted.
        name: of the agent, which the text begins with.
        show: is given a text and how much is done, from 0 to 1.
        frames_per_step: emulator frames of a step.
        clock: tells seconds.
    """

    def __init__(
        self,
        twin,
        limits: Mapping[str, float],
        name: str,
        show: Callable[[str, float], None],
        *,
        frames_per_step: float = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._twin, self._name, self._show, self._clock = twin, name, show, clock
        self._episodes, self._steps = limits["num_episodes"], limits["num_max_iter"]
        self._frames_per_step = frames_per_step
        self._ended = self._acted = 0
        self._begun, self._next_show = False, -math.inf

    def __call__(self) -> None:
        """Looks at the twin's last decision, of which there is none at the first call."""
        if self._begun:
            self._ended += int(np.count_nonzero(self._twin.get_latest_episode_end()))
            self._acted += int(np.count_nonzero(self._twin.get_latest_acted()))
        self._begun = True
        now = self._clock()
        if now >= self._next_show:
            self._next_show = now + _REDRAW_SECONDS
            self._show(*self._told())

    def _told(self) -> tuple[str, float]:
        if self._steps == math.inf:
            done = min(self._ended, self._episodes)
            return f"{self._name}: {done:,} of {self._episodes:,} games, {self._acted:,} steps", done / self._episodes
        done = min(self._acted, self._steps)
        frames = [f"{count * self._frames_per_step:,.0f}" for count in (done, self._steps)]
        return f"{self._name}: {frames[0]} of {frames[1]} frames", done / self._steps
