"""What all commands share: wrong usage and errors in one line, exit codes, signals, a quiet TensorFlow."""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator

from dqn_lab.interruption import EXIT_CODE
from dqn_lab.rundef import Rundef, RundefError, SettingError, load_rundef, rundef_names

EXIT_CODES = (
    "exit codes: 0 done; 1 something is wrong, said in one line, and nothing is written; 2 wrong usage;\n"
    "            130 broken off by Ctrl-C or SIGTERM"
)
_TOLD = (ValueError, TypeError, OSError, ImportError, MemoryError, FloatingPointError)


class CommandParser(argparse.ArgumentParser):
    """What a command takes; says what is wrong in one line."""

    def __init__(self, prog: str, **arguments):
        super().__init__(prog, allow_abbrev=False, **arguments)

    def print_help(self, file=None):
        with for_whoever_reads():
            super().print_help(file)

    def error(self, message: str):
        print(f"{self.prog}: error: {message}", file=sys.stderr)
        sys.exit(2)


class RundefParser(CommandParser):
    """What a command on a rundef takes.

    Args:
        prog: the command.
        description: what it does, in one line.
    """

    def __init__(self, prog: str, description: str):
        epilog = f"{prog} RUNDEF --help lists the keys of a rundef."
        super().__init__(prog, description=description, epilog=epilog, add_help=False)
        add = self.add_argument
        add("rundef", nargs="?", metavar="RUNDEF", help="a file, or a name such as breakout_v0")
        add("-h", "--help", action="store_true", help="show this, and RUNDEF's keys if it is given")
        add("--set", action="append", default=[], metavar="KEY=VALUE", help="set a rundef's key")
        add("--verbose", action="store_true", help="show tracebacks and the libraries' own messages")

    def parse_args(self, args=None, namespace=None):
        """Also refuses a command without a rundef that doesn't ask for help."""
        given = super().parse_args(args, namespace)
        if given.rundef is None and not given.help:
            self.error("a rundef is needed: one of " + ", ".join(rundef_names()))
        return given

    def show_help(self, name: str | None) -> int:
        """Prints the command's help, and the keys of a rundef if it is given. Returns the exit code."""
        with for_whoever_reads():
            self.print_help()
            if name is None:
                print("\nrundefs: " + ", ".join(rundef_names()))
                return 0
            return guard(self.prog, False, None, lambda: _describe(load_rundef(name)))
        return 0  # nobody read it


@contextlib.contextmanager
def for_whoever_reads() -> Iterator[None]:
    """Lets what is printed end where nobody reads on, as in `| head`, or where there is no stream at all, `>&-`.

    A sign that the stream has no code for, in the name of a run, is written as its number: \\u2603.
    """
    if sys.stdout is None:
        yield
        return
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())  # what is left in the stream goes there at the end


@contextlib.contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Until the run takes signals over, and behind it: not a death without a word."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def guard(prog: str, verbose: bool, transcript, command: Callable[[], int]) -> int:
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
        hint = "" if verbose or _is_told(error) else " (--verbose shows where)"
        print(f"{prog}: error: {_one_line(error)}{hint}", file=sys.stderr)
        return 2 if isinstance(error, SettingError) else 1


def _describe(rundef: Rundef) -> int:
    with for_whoever_reads():
        print(f"\n{rundef.name}: {rundef.describe()}")
    return 0


def _is_told(error: BaseException) -> bool:
    """Whether an error's own text says what is wrong and what to do."""
    return isinstance(error, (*_TOLD, RundefError)) or getattr(error, "is_told", False)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if _is_told(error) and text:
        return text
    kind = type(error).__name__
    return f"{kind}: {text}" if text else kind


def whole_number(text: str) -> int:
    """Reads an option's whole number above 0."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def positive_number(text: str) -> float:
    """Reads an option's number above 0."""
    number = float(text)
    if not 0 < number < math.inf:
        raise ValueError
    return number


def seed_number(text: str) -> int:
    """Reads an option's whole number from 0 on."""
    if (number := int(text)) < 0:
        raise ValueError
    return number


def probability(text: str) -> float:
    """Reads an option's number from 0 to 1."""
    if not 0 <= (number := float(text)) <= 1:
        raise ValueError
    return number


# argparse names a type by its function: "invalid whole number above 0 value: '0'".
whole_number.__name__ = "whole number above 0"
positive_number.__name__ = "number above 0"
seed_number.__name__ = "whole number from 0 on"
probability.__name__ = "number from 0 to 1"
