"""Plays whole games on an evaluation twin and says which of them count.

Which games count is decided by their number, never by which lane finishes first. With
`num_max_iter` = 20 and three lanes:

    lane 0   0 0 0 0 0 0 0 0 0|3 3 3 ...      episode 0: 9 steps, sum  9   counts
    lane 1   1 1 1 1|4 4 4 4 4 4 4 4 ...      episode 1: 4 steps, sum 13   counts
    lane 2   2 2 2 2 2 2 2 2 2 2 2 2|5 ...    episode 2: 12 steps, sum 25  does not fit: cut

Episodes 3, 4 and 5 were played beside them and are dropped, however early they end. One lane would
have played 0, 1 and a part of 2: the same answer.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class EvaluationResult:
    """Raw, undiscounted scores of the whole games of one evaluation, in the order of their numbers.

    Args:
        returns: sum of the raw rewards of each counted episode.
        lengths: steps of each counted episode.
        truncated: whether each was ended by its frame cap or time limit, not by the game.
        cut: 1 if the step limit broke an episode off, else 0. That episode isn't among the others.
    """

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    truncated: tuple[bool, ...]
    cut: int

    @property
    def episodes(self) -> int:
        """How many episodes count."""
        return len(self.returns)

    @property
    def capped(self) -> int:
        """How many of the counted episodes were ended by truncation."""
        return sum(self.truncated)

    @property
    def return_mean(self) -> float:
        """Mean return; NaN where no episode counts."""
        return float(np.mean(self.returns)) if self.returns else math.nan

    @property
    def return_std(self) -> float:
        """Standard deviation of these returns (divided by their number, not one less); or NaN."""
        return float(np.std(self.returns)) if self.returns else math.nan

    @property
    def length_mean(self) -> float:
        """Mean length in steps; NaN where no episode counts."""
        return float(np.mean(self.lengths)) if self.lengths else math.nan


NO_RESULT = EvaluationResult(returns=(), lengths=(), truncated=(), cut=0)


class EvaluationStopped(Exception):
    """An evaluation was asked to stop before its end."""


def evaluate(
    twin,
    *,
    num_episodes: float,
    num_max_iter: float,
    seed: int = 0,
    stop_requested: Callable[[], bool] = lambda: False,
    watch: Callable[[], None] | None = None,
) -> EvaluationResult:
    """Play episodes 0, 1, 2, ... with the twin's present policy and epsilon; count them by number.

    Episode i counts if i < `num_episodes` and episodes 0 to i together take at most `num_max_iter`
    steps. Play stops at the step after which that is known. Episode i is seeded by (seed, i), so
    the number of lanes changes the time this takes and nothing else.

    Args:
        twin: what a sequence's `create_validation_instance` returns.
        num_episodes: episodes to play, at least 1, or infinity.
        num_max_iter: steps that the counted episodes may take together, at least 1, or infinity.
        seed: of all episodes.
        stop_requested: asked before each step whether to break off.
        watch: called before the first decision and after each, when the twin shows where it stands; None.

    Raises:
        EvaluationStopped: it was.
        TypeError: a limit that is no number.
        ValueError: a limit that is neither a whole number from 1 on nor infinity; both infinite.
    """
    check_limits(num_episodes, num_max_iter)
    twin.reseed(seed)
    tally = _Tally(num_episodes, num_max_iter, twin.num_envs)
    if watch is not None:
        watch()
    while not tally.decided:
        if stop_requested():
            raise EvaluationStopped
        twin.simulate_single()
        if watch is not None:
            watch()
        tally.add(
            twin.episode_number,
            twin.get_latest_acted(),
            twin.get_latest_reward(),
            twin.get_latest_episode_end(),
            twin.get_latest_truncation(),
        )
    return tally.result()


def check_limits(num_episodes: float, num_max_iter: float) -> None:
    """Refuse limits that `evaluate` can't keep; its docstring says which."""
    for name, value in (("num_episodes", num_episodes), ("num_max_iter", num_max_iter)):
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise TypeError(f"`{name}` must be a number. Received: {name}={value!r}")
        if not (value >= 1 and (value == math.inf or value == int(value))):
            raise ValueError(f"`{name}` must be a whole number from 1 on, or infinity. Received: {name}={value}")
    if num_episodes == math.inf and num_max_iter == math.inf:
        raise ValueError(
            "One of `num_episodes` and `num_max_iter` must be finite, or no evaluation ends. "
            f"Received: num_episodes={num_episodes}, num_max_iter={num_max_iter}"
        )


class _Tally:
    """Adds up what the lanes play and judges the episodes in the order of their numbers."""

    def __init__(self, num_episodes: float, num_max_iter: float, num_envs: int):
        self.decided = False
        self._num_episodes = num_episodes
        self._steps_left = num_max_iter  # for the episodes not yet judged
        self._returns = np.zeros(num_envs, np.float64)  # [N] of the episode a lane is playing
        self._lengths = np.zeros(num_envs, np.int64)  # [N]
        self._waiting: dict[int, tuple] = {}  # ended, while an episode before it is being played
        self._counted: list[tuple] = []
        self._cut = 0

    def add(self, number, acted, reward, ended, truncated) -> None:
        """Take in one decision of every lane that didn't spend it on a reset; arguments are [N]."""
        self._returns += np.where(acted, reward, 0.0)
        self._lengths += acted
        for lane in np.flatnonzero(ended):
            self._waiting[int(number[lane])] = (
                float(self._returns[lane]),
                int(self._lengths[lane]),
                bool(truncated[lane]),
            )
        self._returns[ended] = 0.0
        self._lengths[ended] = 0
        self._judge(number)

    def _judge(self, number) -> None:
        while not self.decided and len(self._counted) in self._waiting:
            episode = self._waiting.pop(len(self._counted))
            if episode[1] > self._steps_left:
                self._cut_off()
                return
            self._counted.append(episode)
            self._steps_left -= episode[1]
            # With no step left the next episode is never begun, so none is cut.
            self.decided = len(self._counted) == self._num_episodes or self._steps_left == 0
        # An episode that still runs needs one more step at least.
        if not self.decided and self._played(number) >= self._steps_left:
            self._cut_off()

    def _played(self, number) -> int:
        return int(self._lengths[number == len(self._counted)].sum())

    def _cut_off(self) -> None:
        self._cut, self.decided = 1, True

    def result(self) -> EvaluationResult:
        """The episodes judged so far."""
        returns, lengths, truncated = zip(*self._counted, strict=True) if self._counted else ((),) * 3
        return EvaluationResult(returns, lengths, truncated, self._cut)
