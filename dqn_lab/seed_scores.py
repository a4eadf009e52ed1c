"""Scores of one rundef's runs: what each seed's run reached, and their mean with its interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dqn_lab.run_record import read_progress

_HEADER = ("seed", "steps", "minutes", "last", "best", "run")
_NONE = "-"


@dataclass(frozen=True)
class Reached:
    """How far a run has come, by its newest checkpoint and its progress.csv; None where these say nothing.

    Args:
        steps: agent steps.
        minutes: minutes that they took.
        last: mean return of the last evaluation: raw, undiscounted, whole games.
        best: the largest of all evaluations' mean returns.
    """

    steps: float | None = None
    minutes: float | None = None
    last: float | None = None
    best: float | None = None


def read_reached(progress: Path, counters: Mapping[str, float] | None = None) -> Reached:
    """Reads how far a run has come.

    A row that is not whole, as a killed process leaves it, is passed over.

    Args:
        progress: its progress.csv; a missing one says nothing.
        counters: of its newest checkpoint; without, the last complete epoch's row tells steps and minutes.
    """
    counters, columns = counters or {}, read_progress(progress)
    scores = _numbers(columns, "eval_return_mean")
    return Reached(
        steps=counters.get("steps", max(_numbers(columns, "steps"), default=None)),
        minutes=counters.get("minutes", max(_numbers(columns, "minutes"), default=None)),
        last=scores[-1] if scores else None,
        best=max(scores, default=None),
    )


def mean_interval(scores: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """The mean of independent scores, and by Student's t how far its confidence interval goes to either side.

    Args:
        scores: one a seed, at least one.
        confidence: probability that such an interval holds the true mean.

    Returns:
        The mean and half the interval's length; NaN for the latter if there is one score only.
    """
    from scipy.special import stdtrit  # quantiles of Student's t

    mean, degrees = float(np.mean(scores)), len(scores) - 1
    if not degrees:
        return mean, math.nan
    standard_error = np.std(scores, ddof=1) / math.sqrt(len(scores))
    return mean, float(stdtrit(degrees, (1 + confidence) / 2) * standard_error)


def score_table(runs: Iterable[tuple[int, Reached, str]]) -> list[str]:
    """Lines for people: a row for each run's seed, what it reached and how it ended; then mean and interval."""
    runs = list(runs)
    rows = [_HEADER, *(_row(*run) for run in runs)]
    last = [reached.last for _, reached, _ in runs if reached.last is not None]
    best = [reached.best for _, reached, _ in runs if reached.best is not None]
    if last:
        means, halves = zip(mean_interval(last), mean_interval(best), strict=True)
        rows.append(("mean", "", "", *map(_score, means), ""))
        rows.append(("95%", "", "", *(_NONE if math.isnan(half) else f"+/-{half:,.2f}" for half in halves), ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join((*map(str.rjust, row[:-1], widths), row[-1])).rstrip() for row in rows]
    if last:
        lines.append(f"95%: Student's t interval of the mean, seeds with a score: {len(last)} of {len(runs)}")
    return lines


def _numbers(columns: Mapping[str, np.ndarray], name: str) -> list[float]:
    """The numbers of a column."""
    column = columns.get(name, np.zeros(0))
    return column[~np.isnan(column)].tolist()


def _row(seed: int, reached: Reached, how: str) -> tuple[str, ...]:
    steps = _NONE if reached.steps is None else f"{reached.steps:,.0f}"
    minutes = _NONE if reached.minutes is None else f"{reached.minutes:,.1f}"
    return (str(seed), steps, minutes, _score(reached.last), _score(reached.best), how)


def _score(score: float | None) -> str:
    return _NONE if score is None else f"{score:,.2f}"
