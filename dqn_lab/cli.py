"""The commands: `dqn-train`, `dqn-evaluate` and `dqn-benchmark`; `python -m dqn_lab.cli --help` lists the family."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from dqn_lab.benchmark.settings import (
    SECONDS,
    SHARING_SECONDS,
    SOAK_SECONDS,
    WHAT,
    benchmark_arguments,
    default_seconds,
)
from dqn_lab.command_line import (
    CommandParser,
    RundefParser,
    for_whoever_reads,
    guard,
    positive_number,
    probability,
    seed_number,
    sigterm_as_ctrl_c,
    whole_number,
)
from dqn_lab.devices import import_tensorflow
from dqn_lab.interruption import EXIT_CODE
from dqn_lab.rundef import Rundef, SettingError, default_run_directory, load_rundef
from dqn_lab.seeds import SeedRun, seed_numbers, train_seeds
from dqn_lab.transcript import Transcript


def train(argv: Sequence[str] | None = None) -> int:
    """`dqn-train`: trains what a rundef says. Returns the exit code."""
    parser = _train_parser()
    given = parser.parse_args(argv)
    if given.help:
        return parser.show_help(given.rundef)
    _require_seeds_in_order(parser, given)
    if given.seeds is not None:
        with sigterm_as_ctrl_c():
            return guard(parser.prog, given.verbose, None, lambda: train_seeds(_seed_runs(given), given.jobs or 1))
    with Transcript() as transcript, sigterm_as_ctrl_c():
        return guard(parser.prog, given.verbose, transcript, lambda: _train(given, transcript))


def evaluate(argv: Sequence[str] | None = None) -> int:
    """`dqn-evaluate`: plays whole games with a run's agent. Returns the exit code."""
    parser = _evaluate_parser()
    given = parser.parse_args(argv)
    with sigterm_as_ctrl_c():
        return guard(parser.prog, given.verbose, None, lambda: _evaluate(given))


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
        _check_place(directory, given.fresh, rundef.name, arguments)
    import_tensorflow(given.verbose)
    if given.check:
        from dqn_lab.assembly import check_arguments

        rundef.build(check_arguments(arguments)).check(transcript.say)
        return 0
    finished = _build(rundef, arguments, directory, given.fresh).train(
        directory,
        fresh=given.fresh,
        steps=given.steps,
        updates=given.updates,
        minutes=given.minutes,
        rundef=rundef.name,
        rundef_file=rundef.path,
        transcript=transcript,
        end_process=True,
    )
    return 0 if finished else EXIT_CODE


def _build(rundef: Rundef, arguments: dict[str, object], directory: Path, fresh: bool):
    """The run. One that has a checkpoint needs its initial weights no more, and may be without them by now."""
    from dqn_lab.checkpoint import complete_checkpoints

    if fresh or "initial_weights" not in arguments or not complete_checkpoints(directory / "checkpoints"):
        return rundef.build(arguments)
    run = rundef.build(arguments | {"initial_weights": None})
    run.arguments = dict(arguments)
    return run


def _check_place(path: Path, fresh: bool, rundef: str, arguments: dict[str, object]) -> None:
    """Before the seconds or gigabytes that building takes."""
    from dqn_lab.continuation import refuse_other_settings, settings
    from dqn_lab.run_directory import RunDirectory

    directory = RunDirectory(path, fresh=fresh)
    directory.check()
    if directory.continues:
        refuse_other_settings(directory, settings(rundef, arguments))


def _require_seeds_in_order(parser: RundefParser, given: argparse.Namespace) -> None:
    """Refuses what the options for several seeds can't be used with."""
    if given.jobs is not None and given.seeds is None:
        parser.error("argument --jobs: needs several seeds: --seeds 0,1,2")
    if given.check and given.seeds is not None:
        parser.error("argument --check: not allowed with argument --seeds")


def _seed_runs(given: argparse.Namespace) -> list[SeedRun]:
    """The runs of --seeds: each one's directory, and the same command for its seed alone."""
    rundef = load_rundef(given.rundef)
    settings = rundef.parse(given.set)
    if "seed" not in rundef.keys:
        raise SettingError(f"--seeds needs a rundef with the key seed. Received: {given.rundef}")
    if "seed" in settings:
        raise SettingError(f"--seeds takes the place of --set seed. Received: seed={settings['seed']}")
    runs = []
    for seed in given.seeds:
        arguments = rundef.resolve(rundef.parse([*given.set, f"seed={seed}"]))
        own = default_run_directory(rundef.name, arguments)
        directory = given.run_dir / f"seed{seed}" if given.run_dir else own
        runs.append(SeedRun(seed, directory, _seed_words(given, seed, directory)))
    return runs


def _seed_words(given: argparse.Namespace, seed: int, directory: Path) -> tuple[str, ...]:
    settings = [*given.set, f"seed={seed}"]
    options = {name: getattr(given, name) for name in ("updates", "steps", "minutes")} | {"run-dir": directory}
    flags = [f"--{flag}" for flag in ("fresh", "verbose") if getattr(given, flag)]
    values = [f"--{name}={value}" for name, value in options.items() if value is not None]
    return (given.rundef, *(f"--set={one}" for one in settings), *values, *flags)


def _evaluate(given: argparse.Namespace) -> int:
    from dqn_lab.evaluate_command import ALL, evaluate_run
    from dqn_lab.score_summary import summary_table

    options = vars(given) | {"say": lambda line: print(f"dqn-evaluate: {line}", file=sys.stderr)}
    as_json = options.pop("json")
    with contextlib.redirect_stdout(sys.stderr):  # whatever is printed beside the figures
        summaries = evaluate_run(**options)
    with for_whoever_reads():
        if as_json:
            found = [one.as_json() for one in summaries]
            print(json.dumps(found if given.which == ALL else found[0], allow_nan=False))
        else:
            print(*(summary_table(summaries) if given.which == ALL else summaries[0].lines()), sep="\n")
    return 0


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


def _train_parser() -> RundefParser:
    parser = RundefParser(
        "dqn-train", "Trains what a rundef says, in a run directory of its own; a run that is there is continued."
    )
    add = parser.add_argument
    add("--run-dir", type=Path, metavar="DIR", help="default: runs/<rundef>[-<game>]-seed<seed>")
    limits = parser.add_mutually_exclusive_group()
    for name in ("updates", "steps"):
        limits.add_argument(f"--{name}", type=whole_number, metavar="N", help=f"end the run at N {name} in all")
    limits.add_argument("--minutes", type=positive_number, metavar="N", help="end the run after N minutes in all")
    add("--fresh", action="store_true", help="put the run that is in the directory aside")
    add("--check", action="store_true", help="build everything, print one update's figures, end")
    add(
        "--seeds",
        type=seed_numbers,
        metavar="S,S,...",
        help="a run for each seed, in turn, in <its default directory> or DIR/seed<S>; then a table of their scores",
    )
    add("--jobs", type=whole_number, metavar="N", help="how many of the seeds train at a time, sharing the cores out")
    return parser


def _evaluate_parser() -> CommandParser:
    parser = CommandParser(
        "dqn-evaluate",
        description="Plays whole games with an agent that a run has saved, and tells their raw, undiscounted returns.\n"
        "The run may be going on; nothing in its directory is changed. The same command gives the same numbers.",
        epilog="examples:\n  dqn-evaluate runs/catch-seed0 --episodes 100\n"
        "  dqn-evaluate runs/breakout_v0-seed0 --which all --protocol nature-2015 --epsilon 0.001 --json",
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
    limits.add_argument("--episodes", type=whole_number, metavar="N", help="games (default: 30)")
    limits.add_argument("--frames", type=whole_number, metavar="N", help="as many games as fit into N emulator frames")
    add(
        "--protocol", metavar="P", help="play by another protocol's rules (default: the run's own, deviations included)"
    )
    add("--epsilon", type=probability, metavar="E", help="share of random actions (default: the protocol's)")
    add("--seed", type=seed_number, default=0, metavar="S", help="of the games (default: 0)")
    add("--num-envs", type=whole_number, metavar="N", help="games beside each other; changes the time this takes alone")
    add("--json", action="store_true", help="print one JSON object, of all a list of them, and nothing else")
    add("--verbose", action="store_true", help="show tracebacks and the libraries' own messages")
    return parser


def _benchmark_parser() -> RundefParser:
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


COMMANDS: dict[str, tuple[Callable[[Sequence[str] | None], int], str]] = {
    "dqn-train": (train, "trains what a rundef says"),
    "dqn-evaluate": (evaluate, "plays whole games with a run's agent and tells their scores"),
    "dqn-benchmark": (benchmark, "measures speed and memory of what a rundef says"),
}

if __name__ == "__main__":
    sys.exit(main())
