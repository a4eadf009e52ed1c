"""Ctrl-C and SIGTERM: the first asks a run to stop, the second ends the process at once."""

from __future__ import annotations

import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable

EXIT_CODE = 130  # what a shell reports for a program that Ctrl-C ended

# Who ends processes often tells each of them and then their group: `timeout`, cluster and service managers.
_ONE_REQUEST_SECONDS = 1.0
_NAMES = ("SIGINT", "SIGTERM", "SIGBREAK")  # SIGBREAK is Windows's Ctrl-Break


class Interruption:
    """Reads signals on a thread of its own, so that they arrive while the main thread is busy.

    Python runs a signal's handler in the main thread, and only between two of its instructions:
    never while that thread waits in TensorFlow, or for an environment that hangs in `step`. But
    its handler in C writes the signal's number to a file descriptor at once, where a thread reads:

        kernel -> C handler -> wakeup fd ---> watcher: 1st -> `requested`;  2nd -> the process ends
                      '------> Python handler, when the main thread gets to it: does nothing

    A SIGTERM less than a second behind the first signal is the same request, told twice.

    Outside the main thread, where Python lets no one set handlers, it does nothing.

    Args:
        end_process: whether the second signal ends the process with code 130. Without, as in a
            notebook, it goes to the handler that was there before: KeyboardInterrupt.
        on_first: called once, on a thread of its own, when the first signal has come.

    Example:

    >>> with Interruption() as interruption:
    ...     while not interruption.requested:
    ...         update()
    """

    def __init__(self, *, end_process: bool = True, on_first: Callable[[], None] | None = None):
        self._end_process = end_process
        self._on_first = on_first
        self._requested = threading.Event()
        self._handled = 0  # signals that Python's own handler has seen
        self._first = {"handled": -math.inf, "received": -math.inf}
        self._previous: dict[int, object] = {}

    @property
    def requested(self) -> bool:
        """Whether the run was asked to stop."""
        return self._requested.is_set()

    def __enter__(self) -> Interruption:
        if threading.current_thread() is not threading.main_thread():
            return self
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._previous_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._watcher = threading.Thread(target=self._watch, name="signals", daemon=True)
        self._watcher.start()
        for name in _NAMES:
            number = getattr(signal, name, None)
            if number is not None:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error) -> None:
        if not self._previous:
            return
        for number, handler in self._previous.items():
            # None stands for a handler that wasn't set from Python; it can't be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._previous_fd)
        self._writer.close()  # ends the watcher
        self._watcher.join()
        self._reader.close()
        self._previous = {}

    def _handle(self, number: int, frame) -> None:
        if self._is_told_twice(number, "handled"):
            return
        self._handled += 1
        previous = self._previous.get(number)
        if not self._end_process and self._handled > 1:
            # A program in the background may have been begun with signals ignored.
            (previous if callable(previous) else signal.default_int_handler)(number, frame)

    def _watch(self) -> None:
        while received := self._reader.recv(64):
            for number in received:
                if number in self._previous and not self._is_told_twice(number, "received"):
                    self._receive()

    def _is_told_twice(self, number: int, where: str) -> bool:
        now = time.monotonic()
        if math.isinf(self._first[where]):
            self._first[where] = now
            return False
        return number == signal.SIGTERM and now - self._first[where] < _ONE_REQUEST_SECONDS

    def _receive(self) -> None:
        if not self._requested.is_set():
            self._requested.set()
            if self._on_first is not None:
                # Printing may wait for the main thread; the next signal must not.
                threading.Thread(target=self._on_first, name="first signal", daemon=True).start()
        elif self._end_process:
            os._exit(EXIT_CODE)
