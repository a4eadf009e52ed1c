"""The training games of runs beside a published curve, at the same frames."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np

from dqn_lab.reports import published_curves
from dqn_lab.reports.iteration_returns import ITERATION_FRAMES, iteration_returns
from dqn_lab.reports.run_groups import RunGroup
from dqn_lab.run_record import RunRecord


@dataclass(frozen=True)
class Comparison:
    """The training games of a row's runs beside a published curve, at the same frames.

    Args:
        frames: of the published point: the last that every run has reached.
        scores: of each run, the mean return of the training games that ended in the million frames up to there.
        mean, low, high: published, over 5 runs.
        same_rules: whether the runs' protocol is the published one.
    """

    frames: int
    scores: tuple[float, ...]
    mean: float
    low: float
    high: float
    same_rules: bool

    @property
    def score(self) -> float:
        """Mean over the runs."""
        return float(np.mean(self.scores))


def compare_group(group: RunGroup) -> Comparison | None:
    """Puts a group's runs beside the nearest published point that isn't beyond the frames of any of them.

    Returns:
        None where there is no such point.
    """
    curve, reached = published_for(group), min(max(_column(run, "frames"), default=0.0) for run in group.runs)
    if curve is None or not reached >= curve.frames[0]:
        return None
    point = max(number for number, frames in enumerate(curve.frames) if frames <= reached)
    frames = curve.frames[point]
    scores = tuple(training_score(run, frames) for run in group.runs)
    same = group.protocol == published_curves.PROTOCOL
    return Comparison(frames, scores, curve.mean[point], curve.low[point], curve.high[point], same)


def published_for(group: RunGroup) -> published_curves.PublishedCurve | None:
    """The published curve of a group's game; None where there is none."""
    if group.runs[0].game is None:
        return None
    with contextlib.suppress(ImportError, TypeError, ValueError):  # a game that this version doesn't know
        return published_curves.published_curve(group.game)
    return None


def training_score(run: RunRecord, frames: int) -> float:
    """Mean return of the training games that ended in the million frames up to `frames`, by the rows of progress.csv.

    Where epochs end with each million that is exact (`iteration_returns`). Elsewhere an epoch counts if its middle lies
    in that million, (frames - 1M, frames]; of longer epochs it is the one in which the million's middle lies. The first
    epoch's mean stands for the fill's games, too, then. NaN if no game ended.
    """
    with contextlib.suppress(ValueError):  # a million ends inside an epoch
        exact = iteration_returns(run).means[frames // ITERATION_FRAMES - 1]
        if np.isfinite(exact):
            return exact
    ends, episodes, means = (_column(run, name) for name in ("frames", "episodes", published_curves.STATISTIC))  # [E]
    begins = np.concatenate([[0], ends[:-1]])  # [E]
    games = np.diff(episodes, prepend=0)  # [E]: that ended in it
    middles = (begins + ends) / 2
    chosen = (frames - ITERATION_FRAMES < middles) & (middles <= frames)  # [E]
    if not chosen.any():
        middle = frames - ITERATION_FRAMES / 2
        chosen = (begins < middle) & (middle <= ends)
    chosen &= np.isfinite(means) & (games > 0)
    return float(np.average(means[chosen], weights=games[chosen])) if chosen.any() else float("nan")


def _column(run: RunRecord, name: str) -> np.ndarray:
    """A column of progress.csv; NaN in all rows where it has none, [E]."""
    rows = max(map(len, run.progress.values()), default=0)
    return run.progress.get(name, np.full(rows, np.nan))
