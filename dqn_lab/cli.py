"""The commands: `dqn-train` and `dqn-benchmark`; `python -m dqn_lab.cli --help` lists the family."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from dqn_lab.benchmark.settings import SECONDS, SOAK_SECONDS, WHAT, benchmark_arguments
from dqn_lab.command_line import (
    RundefParser,
    guard,
    import_tensorflow,
    positive_number,
    sigterm_as_ctrl_c,
    whole_number,
)
from dqn_lab.interruption import EXIT_CODE
from dqn_lab.rundef import default_run_directory, load_rundef
from dqn_lab.transcript import Transcript


def train(argv: Sequence[str] | None = None) -> int:
    """`dqn-train`: trains what a rundef says. Returns the exit code."""
    parser = _train_parser()
    given = parser.parse_args(argv)
    if given.help:
        return parser.show_help(given.rundef)
    with Transcript() as transcript, sigterm_as_ctrl_c():
        return guard(parser.prog, given.verbose, transcript, lambda: _train(given, transcript))


def benchmark(argv: Sequence[str] | None = None) -> int:
    """`dqn-benchmark`: measures what a rundef says. Returns the exit code."""
    parser = _benchmark_parser()
    given = parser.parse_args(argv)
    if given.help:
        return parser.show_help(given.rundef)
    with sigterm_as_ctrl_c():
        return guard(parser.prog, given.verbose, None, lambda: _benchmark(given))


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m dqn_lab.cli COMMAND ...`: the same commands where scripts aren't on the path."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        print("usage: python -m dqn_lab.cli COMMAND ...\n\ncommands, each with its own --help:")
        for name, (_, line) in COMMANDS.items():
            print(f"  {name}  {line}")
        return 0
    if words[0] not in COMMANDS:
        known = ", ".join(COMMANDS)
        print(f"dqn_lab: error: commands are {known}. Received: {words[0]}", file=sys.stderr)
        return 2
    return COMMANDS[words[0]][0](words[1:])


def _train(given: argparse.Namespace, transcript: Transcript) -> int:
    rundef = load_rundef(given.rundef)
    arguments = rundef.resolve(rundef.parse(given.set))
    directory = given.run_dir or default_run_directory(rundef.name, arguments)
    if not given.check:
        _check_place(directory, given.fresh)
    import_tensorflow(given.verbose)
    if given.check:
        from dqn_lab.assembly import check_arguments

        rundef.build(check_arguments(arguments)).check(transcript.say)
        return 0
    finished = rundef.build(arguments).train(
        directory,
        fresh=given.fresh,
        steps=given.steps,
        updates=given.updates,
        minutes=given.minutes,
        rundef=rundef.name,
        transcript=transcript,
        end_process=True,
    )
    return 0 if finished else EXIT_CODE


def _check_place(directory: Path, fresh: bool) -> None:
    """Before the seconds or gigabytes that building takes."""
    from dqn_lab.run_directory import RunDirectory

    RunDirectory(directory, fresh=fresh).check()


def _benchmark(given: argparse.Namespace) -> int:
    with contextlib.redirect_stdout(sys.stderr):  # whatever is printed beside the figures
        rundef = load_rundef(given.rundef)
        settings = rundef.parse(given.set)
        arguments = benchmark_arguments(given.what, rundef.resolve(settings), settings)
        import_tensorflow(given.verbose)
        from dqn_lab.benchmark import measurement, report

        run = rundef.build(arguments)
        seconds = given.seconds or (SOAK_SECONDS if given.what == "soak" else SECONDS)
        figures = measurement.measure(run, given.what, seconds, (lambda line: None) if given.json else print)
        facts = measurement.describe(run, rundef.name, arguments)
    if given.json:
        print(json.dumps({"what": given.what, "seconds": seconds} | figures | facts))
    else:
        print(report.table(figures), *run.describe(), report.context(facts), sep="\n")
    return 0


def _train_parser() -> RundefParser:
    parser = RundefParser("dqn-train", "Trains what a rundef says, in a run directory of its own.")
    add = parser.add_argument
    add("--run-dir", type=Path, metavar="DIR", help="default: runs/<rundef>[-<game>]-seed<seed>")
    limits = parser.add_mutually_exclusive_group()
    for name in ("updates", "steps"):
        limits.add_argument(f"--{name}", type=whole_number, metavar="N", help=f"end the run at N {name} in all")
    limits.add_argument("--minutes", type=positive_number, metavar="N", help="end the run after N minutes in all")
    add("--fresh", action="store_true", help="put the run that is in the directory aside")
    add("--check", action="store_true", help="build everything, print one update's figures, end")
    return parser


def _benchmark_parser() -> RundefParser:
    parser = RundefParser(
        "dqn-benchmark",
        "Measures how fast a rundef trains, what each stage of an update takes, and its memory; writes no file. "
        "Unless it is set, the initial fill is 20,000 steps at most.",
    )
    add = parser.add_argument
    add(
        "--what",
        choices=WHAT,
        default="all",
        help="one stage again and again, by itself; train: without the stages; soak: a long training with a small "
        "replay, which must stay as fast and small as it was; all (the default): training and stages in turn, and the "
        "efficiency",
    )
    add(
        "--seconds",
        type=positive_number,
        metavar="N",
        help=f"of measuring, beside the fill (default: {SECONDS:g}; soak: {SOAK_SECONDS:g}, and longer if need be)",
    )
    add("--json", action="store_true", help="print one JSON object and nothing else")
    return parser


COMMANDS: dict[str, tuple[Callable[[Sequence[str] | None], int], str]] = {
    "dqn-train": (train, "trains what a rundef says"),
    "dqn-benchmark": (benchmark, "measures speed and memory of what a rundef says"),
}

if __name__ == "__main__":
    sys.exit(main())
