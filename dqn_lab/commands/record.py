"""`dqn-record`: films whole games of a run's agent, or shows them in a window."""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from dqn_lab.command_line import (
    EXIT_CODES,
    CommandParser,
    for_whoever_reads,
    guard,
    probability,
    seed_number,
    sigterm_as_ctrl_c,
    whole_number,
)

_SALIENCY = ("gradient", "guided", "deconvnet")  # as dqn_lab.saliency.METHODS, which TensorFlow comes with


def record(argv: Sequence[str] | None = None) -> int:
    """`dqn-record`: films whole games of a run's agent, or shows them in a window. Returns the exit code."""
    parser = _parser()
    given = parser.parse_args(argv)
    if given.out is None and not given.watch:
        parser.error("--out FILE or --watch is needed")
    with sigterm_as_ctrl_c():
        return guard(parser.prog, given.verbose, None, lambda: _record(given))


def _record(given: argparse.Namespace) -> int:
    from dqn_lab.films.recording import record_run

    options = vars(given) | {"say": lambda line: print(f"dqn-record: {line}", file=sys.stderr)}
    with contextlib.redirect_stdout(sys.stderr or io.StringIO()):  # whatever is printed beside what was asked for
        recording = record_run(**options)
    with for_whoever_reads():
        print(*recording.lines(), sep="\n")
    return 0


def _parser() -> CommandParser:
    parser = CommandParser(
        "dqn-record",
        description="Films whole games played by an agent that a run has saved: the game's own screens at their own\n"
        "speed, of Atari every frame of the emulator. They are the games of dqn-evaluate with the same seed.\n"
        "The run may be going on; nothing in its directory is changed.",
        epilog="examples:\n  dqn-record runs/catch-seed0 --out catch.gif --episodes 3 --overlay\n"
        "  dqn-record runs/breakout_v0-seed0 --out learning.mp4 --which all --epsilon 0.001\n"
        "  dqn-record runs/breakout_v0-seed0 --out seen.mp4 --saliency guided --overlay\n"
        "  dqn-record runs/breakout_v0-seed0 --watch --zoom 4\n\n" + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("run_directory", type=Path, metavar="RUN_DIR", help="such as runs/catch-seed0")
    add("--out", type=Path, metavar="FILE", help="the film: .mp4 (H.264), or .gif with at most 50 pictures a second")
    add("--watch", action="store_true", help="play in a window, where there is a display; Escape or Q closes it")
    add("--episodes", type=whole_number, default=1, metavar="N", help="whole games of each agent (default: 1)")
    add(
        "--overlay",
        action="store_true",
        help="beside the picture: score, step, epsilon, and the values of all actions (of an actor-critic their "
        "probabilities and the state's value); the one taken is marked, in another colour where it was a random one",
    )
    add(
        "--saliency",
        choices=_SALIENCY,
        help="over the picture: which pixels of the state the value of the action taken depends on (of an actor-critic "
        "its log-probability), by its gradient, guided backpropagation or a deconvnet",
    )
    add(
        "--which",
        metavar="W",
        help="best, latest, the steps of a save that was kept, or all for each of these in one film, its steps written "
        "there (default: best, or latest where no evaluation has been saved as the best)",
    )
    add(
        "--protocol",
        metavar="P",
        help="play by another protocol's rules, such as dopamine (default: the run's own, deviations included)",
    )
    add("--epsilon", type=probability, metavar="E", help="share of random actions, 0 to 1 (default: the protocol's)")
    add("--seed", type=seed_number, default=0, metavar="S", help="of the games, 0 or more (default: 0)")
    add(
        "--zoom",
        type=whole_number,
        metavar="N",
        help="screen pixels per game pixel (default: the least for a picture 400 pixels high, 2 for Atari)",
    )
    add("--verbose", action="store_true", help="show tracebacks and the libraries' own messages")
    return parser
