"""Prints how runs of `dopamine_dqn` stand to Dopamine's published curves, in the same statistic.

    python scripts/compare_with_published.py runs/dopamine_dqn-pong-seed0 runs/dopamine_dqn-pong-seed1

A row for each million frames: the mean return of the training games that ended within it, of each run and of them all,
the published mean, and the lowest and highest of its 5 runs. The exit code is 1 if a run's figure lies below that band.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dqn_lab.reports.iteration_returns import ITERATION_FRAMES, IterationReturns, iteration_returns
from dqn_lab.reports.published_curves import PROTOCOL, PublishedCurve, published_curve
from dqn_lab.run_record import RunRecord, read_run


def table(runs: Sequence[RunRecord], returns: Sequence[IterationReturns], curve: PublishedCurve) -> list[str]:
    """Lines for people: a row for each million frames that the curve has a point of."""
    header = ("M frames", *(f"seed {run.seed}" for run in runs), "mean", "published", "lowest to highest", "")
    rows = [header]
    points = zip(curve.frames, curve.mean, curve.low, curve.high, strict=True)
    for frames, mean, low, high in points:
        number = frames // ITERATION_FRAMES - 1
        found = [one.means[number] for one in returns if number < len(one.means)]
        if not found:
            break
        cells = [f"{one.means[number]:.2f}" if number < len(one.means) else "-" for one in returns]
        ours = sum(found) / len(found)
        rows.append(
            (f"{number + 1}", *cells, f"{ours:.2f}", f"{mean:.2f}", f"{low:.2f} to {high:.2f}", judge(ours, low, high))
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.rjust, row, widths)).rstrip() for row in rows]


def judge(ours: float, low: float, high: float) -> str:
    """Returns where a mean stands to the published band."""
    return "below" if ours < low else "above" if ours > high else "inside"


def main(argv: Sequence[str] | None = None) -> int:
    """Reads the runs and prints the table of each game. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN_DIR")
    games: dict[str, list[RunRecord]] = {}
    for directory in parser.parse_args(argv).runs:
        try:
            run = read_run(directory)
        except ValueError as error:
            parser.error(str(error))
        if run.game is None or run.protocol.name != PROTOCOL or published_curve(run.game) is None:
            parser.error(f"a run must be of the protocol {PROTOCOL} and of a game with a published curve: {directory}")
        games.setdefault(run.game, []).append(run)
    below = False
    for game, runs in games.items():
        returns = [iteration_returns(run) for run in runs]
        lines = table(runs, returns, published_curve(game))
        below = below or any(line.endswith("below") for line in lines)
        print(f"{game}, {runs[0].protocol}", *lines, sep="\n")
        if not all(one.counts_fill for one in returns):
            print("no checkpoint tells what the fill's games scored: the first million is without them")
    return int(below)


if __name__ == "__main__":
    sys.exit(main())
