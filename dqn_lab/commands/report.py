"""`dqn-report`: what several runs have reached, in tables."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from dqn_lab.command_line import EXIT_CODES, CommandParser, for_whoever_reads, guard, sigterm_as_ctrl_c

_SUFFIXES = (".md", ".html")


def report(argv: Sequence[str] | None = None) -> int:
    """`dqn-report`: what several runs have reached, in tables. Returns the exit code."""
    parser = _parser()
    given = parser.parse_args(argv)
    with sigterm_as_ctrl_c():
        return guard(parser.prog, given.verbose, None, lambda: _report(given))


def _report(given: argparse.Namespace) -> int:
    from dqn_lab.output_file import check_output, whole_file
    from dqn_lab.reports.report_tables import as_json, report_tables
    from dqn_lab.reports.reporting import make_report
    from dqn_lab.reports.table_markup import markdown, page

    out = None if given.out is None else check_output(given.out, _SUFFIXES)
    made = make_report(
        given.run_directories, given.compare, say=lambda line: print(f"dqn-report: {line}", file=sys.stderr)
    )
    write = page if out is not None and out.suffix.lower() == ".html" else markdown
    text = write("Report", report_tables(made))
    if out is not None:
        with whole_file(out) as part:
            part.write_text(text, encoding="utf-8", errors="backslashreplace")
    with for_whoever_reads():
        if given.json:
            print(json.dumps(as_json(made), allow_nan=False))
        else:
            print(text if out is None else f"{out}\n", end="")
    return 0


def _parser() -> CommandParser:
    parser = CommandParser(
        "dqn-report",
        description="Tells what runs have reached, a table for each game and a row for each configuration: score with\n"
        "its interval over seeds, and over several Atari games the human-normalised mean, median, interquartile mean\n"
        "and optimality gap. The runs may be going on; nothing in their directories is changed.",
        epilog="examples:\n  dqn-report runs/catch-seed*\n"
        "  dqn-report runs/dopamine_dqn-* --compare dopamine --out report.html\n\n" + EXIT_CODES,
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
    add("--out", type=Path, metavar="FILE", help="write it to report.md or report.html (default: Markdown, printed)")
    add(
        "--compare",
        choices=("dopamine",),
        help="put the training games beside the published curves of Dopamine's DQN, at the same frames",
    )
    add("--json", action="store_true", help="print one JSON object")
    add("--verbose", action="store_true", help="show tracebacks")
    return parser
