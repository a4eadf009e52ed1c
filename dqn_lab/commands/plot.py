"""`dqn-plot`: draws curves of runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dqn_lab.command_line import EXIT_CODES, CommandParser, for_whoever_reads, guard, sigterm_as_ctrl_c


def plot(argv: Sequence[str] | None = None) -> int:
    """`dqn-plot`: draws curves of runs. Returns the exit code."""
    parser = _parser()
    given = parser.parse_args(argv)
    with sigterm_as_ctrl_c():
        return guard(parser.prog, given.verbose, None, lambda: _plot(given))


def _plot(given: argparse.Namespace) -> int:
    from dqn_lab.plots.plotting import plot_runs

    options = vars(given) | {"say": lambda line: print(f"dqn-plot: {line}", file=sys.stderr)}
    options.pop("verbose")
    figure = plot_runs(**options)
    with for_whoever_reads():
        print(f"{given.out}:")
        for axes in figure.axes:
            for label in axes.get_legend_handles_labels()[1]:
                print(f"  {axes.get_title()}: {' '.join(label.split())}")
    return 0


def _parser() -> CommandParser:
    parser = CommandParser(
        "dqn-plot",
        description="Draws curves of runs: a panel for each game, in it a line for each configuration: the mean of\n"
        "its seeds where each has data, in a band from the lowest to the highest; thin lines are single seeds. Runs\n"
        "that differ in nothing but their seeds are one configuration; the legend says what differs.\n"
        "The runs may be going on; nothing in their directories is changed.",
        epilog="examples:\n  dqn-plot runs/catch-seed* --out curves.png\n"
        "  dqn-plot runs/cartpole_async-* --out minutes.svg --x minutes\n"
        "  dqn-plot runs/breakout_v0-seed0 --out loss.pdf --y loss\n"
        "  dqn-plot runs/dopamine_dqn-pong-seed* --out pong.png --compare dopamine --x frames\n\n" + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "run_directories",
        type=Path,
        nargs="+",
        metavar="RUN_DIR",
        help="such as runs/catch-seed0, or runs/*: what is no run is left out, with a line",
    )
    add("--out", type=Path, required=True, metavar="FILE", help="what to write: .png, .svg or .pdf")
    add(
        "--x",
        choices=("steps", "frames", "updates", "minutes"),
        default="steps",
        help="what runs along: agent steps, emulator frames, updates or minutes of training (default: steps)",
    )
    add(
        "--y",
        metavar="Y",
        help="a column of progress.csv, or human_normalized: 0 is the random policy's score and 1 DQN Zoo's human's "
        "(default: eval_return_mean, with --compare train_return_mean)",
    )
    add(
        "--compare",
        choices=("dopamine",),
        help="draw published curves behind: those of Dopamine's DQN on nine Atari games, of training games",
    )
    add("--title", metavar="T", help="written above")
    add("--verbose", action="store_true", help="show tracebacks and the libraries' own messages")
    return parser
