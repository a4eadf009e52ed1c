"""A run in a process of its own: begun, read and asked to stop from outside; watching its parent inside."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TextIO

import psutil

from dqn_lab.interruption import EXIT_CODE

# The same modules as the parent's, wherever it has them from; not those of the present folder first.
_CHILD = (
    "import sys; sys.path[:] = {path!r}; from dqn_lab.cli import train; from dqn_lab.seed_process import attended; "
    "sys.exit(attended(train, {cores!r}, sys.argv[1:]))"
)
_LAST_LINES_SECONDS = 5.0  # a process that outlives the run may hold its output open
_printing = threading.Lock()


class SeedProcess:
    """A `dqn-train` in a process that stops, by saving, when its standard input ends.

        parent                          child
        holds the pipe's one end  --->  standard input, which a thread reads
        asks to stop: closes it   --->  end of file: one SIGTERM to itself
        dies, by kill -9 too      --->  the same, since the system closes it

    It has a session of its own (on Windows: a group), so that the terminal's Ctrl-C reaches the parent alone: a second
    signal would end the run at once.

    Args:
        words: arguments of `dqn-train`.
        cores: numbers of the CPU cores that it shall use; None leaves it all.
        prefix: put before each line of its output; None lets it write straight to this process's output.
        on_end: called on a thread of its own with the exit code, when the process and its output have ended.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        cores: Sequence[int] | None = None,
        prefix: str | None = None,
        on_end: Callable[[int], None],
    ):
        code = _CHILD.format(path=sys.path, cores=cores)
        output = None if prefix is None else subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-c", code, *words],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            text=True,
            errors="backslashreplace",
            **_own_group(),
        )
        streams = [] if prefix is None else [(self._process.stdout, sys.stdout), (self._process.stderr, sys.stderr)]
        copies = [_thread(_copy_lines, *pair, prefix) for pair in streams]
        _thread(self._wait, copies, on_end)

    def ask_to_stop(self) -> None:
        """Lets it finish the update in progress and save."""
        self._process.stdin.close()

    def kill(self) -> None:
        """Ends it at once, with what it has begun itself."""
        if self._process.poll() is None:
            if hasattr(os, "killpg"):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
            self._process.wait()

    def _wait(self, copies: Sequence[threading.Thread], on_end: Callable[[int], None]) -> None:
        code = self._process.wait()
        self._process.stdin.close()
        for copy in copies:
            copy.join(_LAST_LINES_SECONDS)
        on_end(code)


def attended(train: Callable[[Sequence[str]], int], cores: Sequence[int] | None, words: Sequence[str]) -> int:
    """What the child does: the command, on its cores, for as long as its parent wants it.

    Returns:
        The command's exit code.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _use_cores(cores)
        threading.Thread(target=_stop_with_standard_input, name="standard input", daemon=True).start()
        return train(words)
    except KeyboardInterrupt:
        return EXIT_CODE
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it has ended: its exit code stands


def say(line: str, stream: TextIO | None) -> None:
    """Prints a line in one piece, by whichever thread, at once; nobody may read it any more."""
    if stream is None:
        return
    with _printing, contextlib.suppress(BrokenPipeError, ValueError):
        stream.write(line.rstrip("\n") + "\n")
        stream.flush()


def core_numbers() -> list[int]:
    """The CPU cores that this process may use; none where the system can't tie a process to cores."""
    return psutil.Process().cpu_affinity() if hasattr(psutil.Process, "cpu_affinity") else []


def _use_cores(cores: Sequence[int] | None) -> None:
    """Before TensorFlow, which counts them, is imported."""
    if cores:
        with contextlib.suppress(OSError, psutil.Error):
            psutil.Process().cpu_affinity(list(cores))


def _stop_with_standard_input() -> None:
    while os.read(0, 1):
        pass
    # What asked the parent may have asked this process too; `Interruption` takes both for one request.
    if sys.platform == "win32":
        signal.raise_signal(signal.SIGTERM)
    else:
        os.kill(os.getpid(), signal.SIGTERM)  # the main thread gets it, and wakes from what it waits for


def _copy_lines(source: TextIO, target: TextIO | None, prefix: str) -> None:
    with source:
        for line in source:
            say(prefix + line, target)


def _thread(target: Callable, *arguments) -> threading.Thread:
    thread = threading.Thread(target=target, args=arguments, daemon=True)
    thread.start()
    return thread


def _own_group() -> dict[str, object]:
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}
