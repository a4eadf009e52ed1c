"""One figure for an agent's scores on many games, with its interval over seeds.

Agarwal et al. (2021), Deep reinforcement learning at the edge of the statistical precipice (NeurIPS), sections 3 and 4:
the interquartile mean and the optimality gap, and intervals by a bootstrap that is stratified by games. On the same
scores the figures are those of that paper's library, rliable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

_RESAMPLES = 10_000
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Aggregate:
    """A figure over games.

    Args:
        value: the figure.
        interval: ends of its 95% bootstrap interval; None where a game has one run only, which tells no spread.
    """

    value: float
    interval: tuple[float, float] | None


def mean(scores: Sequence[np.ndarray]) -> np.ndarray:
    """Mean over games of the mean over runs: one or two games with huge scores decide it.

    Args:
        scores: normalised, of each game's runs: [..., runs]; games may have different numbers of runs.

    Returns:
        [...].
    """
    return _game_means(scores).mean(-1)  # [...]


def median(scores: Sequence[np.ndarray]) -> np.ndarray:
    """Median over games of the mean over runs: half of the games may be at zero. Arguments as `mean`."""
    return np.median(_game_means(scores), -1)  # [...]


def interquartile_mean(scores: Sequence[np.ndarray]) -> np.ndarray:
    """Mean of the runs of all games together without the lowest and the highest quarter of them.

    A quarter is rounded down to whole runs, as rliable (scipy's `trim_mean`) does. Arguments as `mean`.
    """
    pooled = np.sort(np.concatenate(scores, -1), -1)  # [..., N]
    quarter = pooled.shape[-1] // 4
    return pooled[..., quarter : pooled.shape[-1] - quarter].mean(-1)  # [...]


def optimality_gap(scores: Sequence[np.ndarray], target: float = 1.0) -> np.ndarray:
    """How much is missing to a target on average, what lies above it counting nothing: lower is better.

    Args:
        scores: as `mean`.
        target: the score that is good enough; 1 is a person's.
    """
    return target - mean([np.minimum(game, target) for game in scores])  # [...]


FIGURES: dict[str, Callable[[Sequence[np.ndarray]], np.ndarray]] = {
    "mean": mean,
    "median": median,
    "iqm": interquartile_mean,
    "optimality_gap": optimality_gap,
}


def aggregate_scores(scores: Sequence[Sequence[float]], seed: int = 0) -> dict[str, Aggregate]:
    """The four figures, with their percentile bootstrap intervals.

    Args:
        scores: normalised, one of each run, of each game: at least one game with at least one run.
        seed: of the draws; the same figures for the same seed.

    Returns:
        Name as in `FIGURES` -> figure.

    Raises:
        ValueError: there is no game, or a game without a run.
    """
    games = [np.asarray(game, np.float64) for game in scores]
    if not games or not all(game.size for game in games):
        raise ValueError(f"`scores` must have a run of each game. Received: scores={scores!r}")
    if min(map(len, games)) < 2:
        return {name: Aggregate(float(figure(games)), None) for name, figure in FIGURES.items()}
    drawn = _resampled(games, np.random.default_rng(seed))
    ends = 50 * (1 - _CONFIDENCE), 50 * (1 + _CONFIDENCE)  # percentiles
    return {
        name: Aggregate(float(figure(games)), tuple(np.percentile(figure(drawn), ends).tolist()))
        for name, figure in FIGURES.items()
    }


def _resampled(games: Sequence[np.ndarray], generator: np.random.Generator) -> list[np.ndarray]:
    """Runs drawn with replacement among those of their own game, [R, runs] of each."""
    return [game[generator.integers(len(game), size=(_RESAMPLES, len(game)))] for game in games]


def _game_means(scores: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack([game.mean(-1) for game in scores], -1)  # [..., G]
