"""`dqn-benchmark`: measures what a rundef says."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence

from dqn_lab.benchmark.settings import (
    SECONDS,
    SHARING_SECONDS,
    SOAK_SECONDS,
    WHAT,
    benchmark_arguments,
    default_seconds,
)
from dqn_lab.command_line import RundefParser, guard, positive_number, sigterm_as_ctrl_c
from dqn_lab.devices import import_tensorflow
from dqn_lab.rundef import load_rundef


def benchmark(argv: Sequence[str] | None = None) -> int:
    """`dqn-benchmark`: measures what a rundef says. Returns the exit code."""
    parser = _parser()
    given = parser.parse_args(argv)
    if given.help:
        return parser.show_help(given.rundef)
    with sigterm_as_ctrl_c():
        return guard(parser.prog, given.verbose, None, lambda: _benchmark(given))


def _benchmark(given: argparse.Namespace) -> int:
    with contextlib.redirect_stdout(sys.stderr):  # whatever is printed beside the figures
        rundef = load_rundef(given.rundef)
        settings = rundef.parse(given.set)
        arguments = benchmark_arguments(given.what, rundef.resolve(settings), settings)
        import_tensorflow(given.verbose)
        from dqn_lab.benchmark import measurement, report

        def build(**changes):
            return rundef.build(rundef.resolve(arguments | changes))

        seconds = given.seconds or default_seconds(given.what)
        figures, run = measurement.measure(build, given.what, seconds, (lambda line: None) if given.json else print)
        facts = measurement.describe(run, rundef.name, arguments)
    if given.json:
        print(json.dumps({"what": given.what, "seconds": seconds} | figures | facts))
    else:
        print(report.table(figures), *run.describe(), report.context(facts), sep="\n")
    return 0


def _parser() -> RundefParser:
    parser = RundefParser(
        "dqn-benchmark",
        "Measures how fast a rundef trains, what each stage of an update takes, its memory, and its checkpoints; of an "
        "asynchronous rundef, its workers. Leaves no file behind. Unless it is set, the initial fill is 20,000 steps "
        "at most.",
    )
    add = parser.add_argument
    add(
        "--what",
        choices=WHAT,
        default="all",
        help="one stage again and again, by itself; train: without the stages; soak: a long training with a small "
        "replay, which must stay as fast and small as it was; checkpoint: saves and a restoration, in a directory in "
        "runs/ or here that is removed; all (the default): training and stages in turn, and the efficiency. Of an "
        "asynchronous rundef, train or all: its workers, without evaluation; scaling: 1, 2, 4, ... workers up to "
        "num_workers, or the cores there are; sharing: updates lost where workers do nothing else, and huge gradients",
    )
    add(
        "--seconds",
        type=positive_number,
        metavar="N",
        help=f"of measuring, beside fill and saves (default: {SECONDS:g}; soak: {SOAK_SECONDS:g}, longer if need be; "
        f"scaling: {SECONDS:g} for each number of workers; sharing: {SHARING_SECONDS:g}, and half as much again)",
    )
    add("--json", action="store_true", help="print one JSON object and nothing else")
    return parser
