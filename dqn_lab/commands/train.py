"""`dqn-train`: trains what a rundef says."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from dqn_lab.command_line import RundefParser, guard, positive_number, sigterm_as_ctrl_c, whole_number
from dqn_lab.devices import import_tensorflow
from dqn_lab.interruption import EXIT_CODE
from dqn_lab.rundef import Rundef, SettingError, default_run_directory, load_rundef
from dqn_lab.seeds import SeedRun, seed_numbers, train_seeds
from dqn_lab.transcript import Transcript


def train(argv: Sequence[str] | None = None) -> int:
    """`dqn-train`: trains what a rundef says. Returns the exit code."""
    parser = _parser()
    given = parser.parse_args(argv)
    if given.help:
        return parser.show_help(given.rundef)
    _require_seeds_in_order(parser, given)
    if given.seeds is not None:
        with sigterm_as_ctrl_c():
            return guard(parser.prog, given.verbose, None, lambda: train_seeds(_seed_runs(given), given.jobs or 1))
    with Transcript() as transcript, sigterm_as_ctrl_c():
        return guard(parser.prog, given.verbose, transcript, lambda: _train(given, transcript))


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


def _parser() -> RundefParser:
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
