"""`dqn-evaluate`: plays whole games with a run's agent."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
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


def evaluate(argv: Sequence[str] | None = None) -> int:
    """`dqn-evaluate`: plays whole games with a run's agent. Returns the exit code."""
    parser = _parser()
    given = parser.parse_args(argv)
    with sigterm_as_ctrl_c():
        return guard(parser.prog, given.verbose, None, lambda: _evaluate(given))


def _evaluate(given: argparse.Namespace) -> int:
    from dqn_lab.run_evaluation import ALL, evaluate_run
    from dqn_lab.score_summary import summary_table
    from dqn_lab.transcript import Transcript

    options = vars(given).copy()
    as_json = options.pop("json")
    with contextlib.redirect_stdout(sys.stderr or io.StringIO()):  # whatever is printed beside the figures
        terminal = Transcript(False if as_json else None)

        def say(line: str) -> None:
            terminal.clear_status()
            print(f"dqn-evaluate: {line}", file=sys.stderr)

        try:
            summaries = evaluate_run(**options, say=say, show=terminal.show_status if terminal.interactive else None)
        finally:
            terminal.clear_status()
    with for_whoever_reads():
        if as_json:
            found = [one.as_json() for one in summaries]
            print(json.dumps(found if given.which == ALL else found[0], allow_nan=False))
        else:
            print(*(summary_table(summaries) if given.which == ALL else summaries[0].lines()), sep="\n")
    return 0


def _parser() -> CommandParser:
    parser = CommandParser(
        "dqn-evaluate",
        description="Plays whole games with an agent that a run has saved, and tells their raw, undiscounted returns.\n"
        "The run may be going on; nothing in its directory is changed. The same command gives the same numbers.",
        epilog="examples:\n  dqn-evaluate runs/catch-seed0 --episodes 100\n"
        "  dqn-evaluate runs/breakout_v0-seed0 --which all --protocol nature-2015 --epsilon 0.001 --json\n\n"
        + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("run_directory", type=Path, metavar="RUN_DIR", help="such as runs/catch-seed0")
    add(
        "--which",
        metavar="W",
        help="best, latest, the steps of a save that was kept, or all for each of these (default: best, or latest "
        "where no evaluation has been saved as the best)",
    )
    limits = parser.add_mutually_exclusive_group()
    limits.add_argument("--episodes", type=whole_number, metavar="N", help="whole games of each agent (default: 30)")
    limits.add_argument(
        "--frames",
        type=whole_number,
        metavar="N",
        help="in their place: as many games as fit into N emulator frames (elsewhere: steps), the last one cut",
    )
    add(
        "--protocol",
        metavar="P",
        help="play by another protocol's rules, such as dopamine (default: the run's own, deviations included)",
    )
    add("--epsilon", type=probability, metavar="E", help="share of random actions, 0 to 1 (default: the protocol's)")
    add("--seed", type=seed_number, default=0, metavar="S", help="of the games, 0 or more (default: 0)")
    add(
        "--num-envs",
        type=whole_number,
        metavar="N",
        help="games beside each other (default: as in the run's evaluations); changes the time alone",
    )
    add("--json", action="store_true", help="print one JSON object, of all a list of them, and nothing else")
    add("--verbose", action="store_true", help="show tracebacks and the libraries' own messages")
    return parser
