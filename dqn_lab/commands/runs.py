"""`dqn-runs`: the runs under a directory."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from dqn_lab.command_line import EXIT_CODES, CommandParser, for_whoever_reads, guard, sigterm_as_ctrl_c


def runs(argv: Sequence[str] | None = None) -> int:
    """`dqn-runs`: lists the runs under a directory, a line each. Returns the exit code."""
    parser = _parser()
    given = parser.parse_args(argv)
    with sigterm_as_ctrl_c():
        return guard(parser.prog, given.verbose, None, lambda: _runs(given))


def _runs(given: argparse.Namespace) -> int:
    from dqn_lab.reports.run_listing import list_runs, runs_table

    found = list_runs(given.directory, say=lambda line: print(f"dqn-runs: {line}", file=sys.stderr))
    now = time.time()
    with for_whoever_reads():
        if given.json:
            print(json.dumps([run.as_json(now) for run in found], allow_nan=False))
        else:
            print(*runs_table(found, now), sep="\n")
    return 0


def _parser() -> CommandParser:
    parser = CommandParser(
        "dqn-runs",
        description="Lists the runs under a directory, the newest first: what became of them, their steps, last and\n"
        "best evaluation (mean return), the time since they last wrote something, the rules they were played under.\n\n"
        "  running   a process of this machine is carrying it out\n"
        "  finished  it has reached one of its totals\n"
        "  stopped   it was asked to stop, and saved; the same command continues it\n"
        "  crashed   its log ends with an error, or in the midst of things: killed, a power cut, or a copy of a run\n"
        "            that was going on; the same command continues it from its newest checkpoint",
        epilog="examples:\n  dqn-runs\n  dqn-runs experiments/pong --json\n\n" + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "directory",
        type=Path,
        nargs="?",
        default=Path("runs"),
        metavar="DIR",
        help="a run, or a folder with runs at any depth (default: runs)",
    )
    add("--json", action="store_true", help="print a JSON list")
    add("--verbose", action="store_true", help="show tracebacks")
    return parser
