"""Curves of runs from their progress: the points of each, and the mean and range over seeds."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dqn_lab.callbacks.measures import COLUMNS
from dqn_lab.reports.run_groups import RunGroup, group_runs
from dqn_lab.run_record import RunRecord
from dqn_lab.scores import human_normalized

HUMAN_NORMALIZED = "human_normalized"


@dataclass(frozen=True, eq=False)
class Curve:
    """Points of one run, or of one mean.

    Args:
        x, y: [K] float64 each, all finite; x ascending.
    """

    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True, eq=False)
class CurveGroup:
    """Curves of runs of one configuration, with their mean and range.

    Args:
        runs: the group; its runs are in the curves' order.
        curves: one a run, each of at least one point.
        x: where every run has data: each run's own points within the range that all have, [G]; maybe none.
        mean, low, high: over the runs, each interpolated linearly, [G].
    """

    runs: RunGroup
    curves: tuple[Curve, ...]
    x: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def group_curves(runs: Sequence[RunRecord], x: str, y: str, say: Callable[[str], None]) -> list[CurveGroup]:
    """Reads the runs' curves and groups them.

    Args:
        runs: one or more.
        x: column that ascends, such as "steps".
        y: another column, or "human_normalized": eval_return_mean measured by DQN Zoo's human scores.
        say: is told, in a line each, which runs are left out for want of a point.

    Raises:
        ValueError: no run has a point, or there is no such column.
    """
    _check_column(runs, y)
    found = [(run, _read_curve(run, x, y)) for run in runs]
    curves = {id(run): curve for run, curve in found if isinstance(curve, Curve)}
    for run, why in found:
        if not curves:
            more = f", nor can {len(runs) - 1} more be drawn" if len(runs) > 1 else ""
            raise ValueError(f"{run.directory} {why}{more}. Received: x={x!r}, y={y!r}")
        if id(run) not in curves:
            say(f"{run.directory} {why}: it is left out")
    groups = group_runs(run for run in runs if id(run) in curves)
    return [_summarise(group, [curves[id(run)] for run in group.runs]) for group in groups]


def mean_and_range(curves: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean, lowest and highest of curves, wherever all of them have data.

    Args:
        curves: one or more.

    Returns:
        x: all curves' points within the range that they share, [G], ascending; then mean, low and high there, [G].
    """
    begin, end = max(curve.x[0] for curve in curves), min(curve.x[-1] for curve in curves)
    grid = np.unique(np.concatenate([curve.x for curve in curves]))
    grid = grid[(begin <= grid) & (grid <= end)]  # [G]
    values = np.stack([np.interp(grid, curve.x, curve.y) for curve in curves])  # [runs, G]
    return grid, values.mean(0), values.min(0), values.max(0)


def _summarise(group: RunGroup, curves: list[Curve]) -> CurveGroup:
    return CurveGroup(group, tuple(curves), *mean_and_range(curves))


def _check_column(runs: Sequence[RunRecord], y: str) -> None:
    known = {HUMAN_NORMALIZED, *(one.key for one in COLUMNS), *(name for run in runs for name in run.progress)}
    if y not in known:
        near = difflib.get_close_matches(y, sorted(known), n=1, cutoff=0.0)[0]
        raise ValueError(
            f"`y` must be {HUMAN_NORMALIZED} or a column of progress.csv; did you mean {near!r}? Received: y={y!r}"
        )


def _read_curve(run: RunRecord, x: str, y: str) -> Curve | str:
    """The run's points; or, in words, why it has none."""
    columns, none = run.progress, np.zeros(0)
    column = "eval_return_mean" if y == HUMAN_NORMALIZED else y
    xs, ys = columns.get(x, none), columns.get(column, none)  # [E] each
    if not len(xs):
        return "has no epoch behind it yet" if x in columns or not columns else f"has no column {x}"
    if not len(ys):
        return f"has no column {column}"
    if y == HUMAN_NORMALIZED:
        if run.game is None or human_normalized(run.game, 0.0) is None:
            return f"plays {run.game or 'no Atari game'}, which has no published human score"
        ys = np.array([human_normalized(run.game, score) for score in ys])  # [E]
    kept = np.isfinite(xs) & np.isfinite(ys)
    if not kept.any():
        return f"has no value of {column} yet"
    order = np.argsort(xs[kept], kind="stable")
    return Curve(xs[kept][order], ys[kept][order])
