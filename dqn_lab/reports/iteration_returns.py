"""A run's training returns by the million frames, as published curves give them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dqn_lab.checkpoint import complete_checkpoints, read_manifest
from dqn_lab.run_record import RunRecord

ITERATION_FRAMES = 1_000_000


@dataclass(frozen=True)
class IterationReturns:
    """Mean returns of the training games that ended within the first, second, ... million frames of a run.

    Args:
        means: raw and undiscounted, one an iteration, [K]; NaN where no game ended.
        games: how many ended, [K].
        counts_fill: whether the games of the initial random steps are among those of the first.
    """

    means: tuple[float, ...]
    games: tuple[int, ...]
    counts_fill: bool


def iteration_returns(run: RunRecord, frames: int = ITERATION_FRAMES) -> IterationReturns:
    """Adds a run's training games up by whole iterations of so many frames.

    An epoch's row tells the mean return of the games that ended in it, and how many have ended so far. What the random
    games of the initial fill scored is in no row. It follows from a checkpoint that was saved at an epoch's end and
    tells the sum over all games:

        row            1            2             3
        games so far   17           22            28          checkpoint at row 3: sum -74
        mean           -2           -3            -2
        sum so far     -74 + 12 + 15 = -47        ...  -62          -74

    so -47 is that of the fill and the first epoch together.

    Args:
        run: with an epoch's end at each iteration's end.
        frames: emulator frames of an iteration.

    Returns:
        The whole iterations; without such a checkpoint the first one lacks fill and first epoch.

    Raises:
        ValueError: an iteration ends inside an epoch.
    """
    progress = run.progress
    if not len(progress.get("frames", ())):
        return IterationReturns((), (), False)
    ends = _iteration_ends(progress["frames"], frames)  # [K] rows
    episodes = progress["episodes"] - progress["episodes"][0]  # [E] since the first row
    sums = np.cumsum(np.diff(episodes, prepend=0.0) * np.nan_to_num(progress["train_return_mean"]))  # [E] since then
    first = _first_row_sum(run, sums)
    if first is not None:
        episodes, sums = episodes + progress["episodes"][0], sums + first
    games = np.diff(episodes[ends], prepend=0.0)  # [K]
    returns = np.diff(sums[ends], prepend=0.0)  # [K]
    means = np.divide(returns, games, out=np.full(len(games), np.nan), where=games > 0)  # [K]
    return IterationReturns(tuple(means.tolist()), tuple(games.astype(int).tolist()), first is not None)


def _iteration_ends(row_frames: np.ndarray, frames: int) -> np.ndarray:
    """Rows at which the iterations end, [K]."""
    wanted = np.arange(1, row_frames[-1] // frames + 1) * frames  # [K]
    rows = np.searchsorted(row_frames, wanted)  # [K]
    missed = wanted[row_frames[rows] != wanted]
    if len(missed):
        raise ValueError(
            f"An epoch must end with each {frames:,} frames, as in dopamine_dqn's runs. "
            f"Received: no epoch's end at {missed[0]:,.0f} frames"
        )
    return rows


def _first_row_sum(run: RunRecord, sums: np.ndarray) -> float | None:
    """The sum of returns at the first row, if a checkpoint tells that of a later one; `sums` [E] are those since."""
    for path in complete_checkpoints(run.directory / "checkpoints"):
        try:
            counters = read_manifest(path)["counters"]
        except (ValueError, OSError):  # broken, or removed meanwhile by a run that goes on
            continue
        rows = np.flatnonzero(run.progress["steps"] == counters["steps"])
        if len(rows) and "train_return_sum" in counters:
            return float(counters["train_return_sum"] - sums[rows[0]])
    return None
