"""The commands: `dqn-train` now; `python -m dqn_lab.cli --help` lists the family."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dqn_lab.interruption import EXIT_CODE
from dqn_lab.rundef import (
    Rundef,
    RundefError,
    SettingError,
    default_run_directory,
    load_rundef,
    rundef_names,
)
from dqn_lab.transcript import Transcript

_TOLD = (ValueError, TypeError, OSError, ImportError, MemoryError, FloatingPointError)


def train(argv: Sequence[str] | None = None) -> int:
    """`dqn-train`: trains what a rundef says. Returns the exit code."""
    parser = _train_parser()
    given = parser.parse_args(argv)
    if given.help:
        return _help(parser, given.rundef)
    if given.rundef is None:
        parser.error("a rundef is needed: one of " + ", ".join(rundef_names()))
    with Transcript() as transcript, _sigterm_as_ctrl_c():
        return _guard(parser.prog, given.verbose, transcript, lambda: _train(given, transcript))


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
    _import_tensorflow(given.verbose)
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


def _help(parser: argparse.ArgumentParser, name: str | None) -> int:
    parser.print_help()
    if name is None:
        print("\nrundefs: " + ", ".join(rundef_names()))
        return 0
    return _guard(parser.prog, False, None, lambda: _describe(load_rundef(name)))


def _describe(rundef: Rundef) -> int:
    print(f"\n{rundef.name}: {rundef.describe()}")
    return 0


@contextlib.contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Until the run takes signals over, and behind it: not a death without a word."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _guard(prog: str, verbose: bool, transcript, command: Callable[[], int]) -> int:
    """Carries a command out; what goes wrong is one line, and an exit code.

    Returns:
        What the command returns; 2 for a wrong usage, 1 for any other error, 130 for Ctrl-C.
    """
    try:
        return command()
    except KeyboardInterrupt as error:
        print(f"{prog}: {str(error) or 'interrupted'}", file=sys.stderr)
        return EXIT_CODE
    except (Exception, SystemExit) as error:
        trace = traceback.format_exc()
        if verbose:
            print(trace, file=sys.stderr, end="")
        elif transcript is not None:
            transcript.note(trace)
        print(f"{prog}: error: {_one_line(error)}", file=sys.stderr)
        return 2 if isinstance(error, SettingError) else 1


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, (*_TOLD, RundefError)) and text:
        return text
    kind = type(error).__name__
    return f"{kind}: {text}" if text else kind


def _import_tensorflow(verbose: bool) -> None:
    """Imports TensorFlow without what it writes of its own accord, unless that is asked for."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    if verbose:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if "tensorflow" in sys.modules:
        return
    # Some of its lines come before that level is read, and not through Python's streams.
    with open(os.devnull, "wb") as nowhere:
        sys.stderr.flush()
        stderr = os.dup(2)
        os.dup2(nowhere.fileno(), 2)
        try:
            importlib.import_module("tensorflow")
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str):
        print(f"{self.prog}: error: {message}", file=sys.stderr)
        sys.exit(2)


def _train_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="dqn-train",
        description="Trains what a rundef says, in a run directory of its own.",
        epilog="dqn-train RUNDEF --help lists the keys of a rundef.",
        add_help=False,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("rundef", nargs="?", metavar="RUNDEF", help="a file, or a name such as breakout_v0")
    add("-h", "--help", action="store_true", help="show this, and RUNDEF's keys if it is given")
    add("--run-dir", type=Path, metavar="DIR", help="default: runs/<rundef>[-<game>]-seed<seed>")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="set a rundef's key")
    limits = parser.add_mutually_exclusive_group()
    for name in ("updates", "steps"):
        limits.add_argument(f"--{name}", type=_count, metavar="N", help=f"end the run at N {name} in all")
    limits.add_argument("--minutes", type=_minutes, metavar="N", help="end the run after N minutes in all")
    add("--fresh", action="store_true", help="put the run that is in the directory aside")
    add("--check", action="store_true", help="build everything, print one update's figures, end")
    add("--verbose", action="store_true", help="show tracebacks and the libraries' own messages")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _minutes(text: str) -> float:
    number = float(text)
    if not number > 0:
        raise ValueError
    return number


# argparse names a type by its function: "invalid whole number above 0 value: '0'".
_count.__name__ = "whole number above 0"
_minutes.__name__ = "number above 0"

COMMANDS: dict[str, tuple[Callable[[Sequence[str] | None], int], str]] = {
    "dqn-train": (train, "trains what a rundef says"),
}

if __name__ == "__main__":
    sys.exit(main())
