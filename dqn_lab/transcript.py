"""Everything a run prints: on the terminal as it comes, and in the run directory's log.txt."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import threading
from pathlib import Path

from dqn_lab.notebook import in_notebook

_LOGGER = "dqn_lab"


class Transcript:
    """Copies what is printed into a log file and keeps a status line below it on a terminal.

    Inside `with` it stands before `sys.stdout` and `sys.stderr`, and shows the messages of the
    logger "dqn_lab". What is printed before `open_log` is kept and written then.

    Args:
        interactive: whether to show the status line; None: where the output is a terminal and no
            notebook, which would keep every state of a line that is drawn anew.
    """

    def __init__(self, interactive: bool | None = None):
        self._stream = sys.stdout
        self.interactive = _is_terminal(self._stream) if interactive is None else interactive
        self._kept = io.StringIO()
        self._log = None
        self._live = None
        self._lock = threading.RLock()
        self._handler = _Handler(self)
        self._outer: list = []

    def __enter__(self) -> Transcript:
        logger = logging.getLogger(_LOGGER)
        self._outer.append((sys.stdout, sys.stderr, logger.level, logger.propagate))
        self._stream = sys.stdout
        sys.stdout, sys.stderr = _Tee(self, sys.stdout), _Tee(self, sys.stderr)
        logger.addHandler(self._handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        return self

    def __exit__(self, *error) -> None:
        self.clear_status()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, _Tee):
                stream.write_rest()
        logger = logging.getLogger(_LOGGER)
        logger.removeHandler(self._handler)
        sys.stdout, sys.stderr, logger.level, logger.propagate = self._outer.pop()
        self.close_log()

    def open_log(self, path: Path) -> None:
        """Writes what was printed so far to a file and goes on there."""
        with self._lock:
            self._log = open(path, "a", encoding="utf-8", buffering=1)
            self._log.write(self._kept.getvalue())
            self._kept = io.StringIO()

    def close_log(self) -> None:
        """Goes on without the log file."""
        with self._lock:
            if self._log is not None:
                with contextlib.suppress(OSError):  # as in `_write_log`
                    self._log.close()
                self._log = None

    def say(self, text: str) -> None:
        """Prints one line."""
        print(text, file=sys.stdout)

    def note(self, text: str) -> None:
        """Writes a line into the log only: a traceback that the terminal is spared."""
        with self._lock:
            self._write_log(text.rstrip("\n") + "\n")

    def show_status(self, text: str, fraction: float) -> None:
        """Draws the status line anew: a bar, filled to a fraction, and a text. Never in the log."""
        if not self.interactive:
            return
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        line = Table.grid(padding=(0, 1))
        line.add_row(ProgressBar(total=1.0, completed=fraction, width=24), text)
        with self._lock:
            self._begin_live().update(line, refresh=True)

    def clear_status(self) -> None:
        """Takes the status line off the terminal."""
        with self._lock:
            if self._live is not None:
                self._live.stop()
                self._live = None

    def _begin_live(self):
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            # Drawn by whoever calls: a thread of its own would take a core from the update.
            self._live = Live(
                console=Console(file=self._stream, force_jupyter=False),
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        return self._live

    def _write(self, stream, text: str) -> None:
        with self._lock:
            if self._live is None:
                self._show(stream, text)
            else:  # above the status line
                self._live.console.print(text.rstrip("\n"), markup=False, highlight=False, soft_wrap=True)
            self._write_log(text)

    def _write_log(self, text: str) -> None:
        """A run doesn't end because its log finds no room on the disk; what it needs the disk for tells that."""
        with contextlib.suppress(OSError):
            (self._log or self._kept).write(text)

    def _show(self, stream, text: str) -> None:
        """Writes to a stream that may be missing (`>&-`) or that nobody reads any more (`| head`): a run goes on."""
        if stream is not None:
            with contextlib.suppress(BrokenPipeError, ValueError):
                stream.write(_encodable(text, stream.encoding))


class _Tee(io.TextIOBase):
    """A text stream that a transcript reads along. Whole lines only, so that threads don't mix."""

    def __init__(self, transcript: Transcript, stream):
        self._transcript = transcript
        self._stream = stream
        self._partial = ""

    def write(self, text: str) -> int:
        lines, newline, rest = (self._partial + text).rpartition("\n")
        self._partial = rest
        if newline:
            self._transcript._write(self._stream, lines + newline)
        return len(text)

    def write_rest(self) -> None:
        """Writes a last line that has no end."""
        if self._partial:
            self._transcript._write(self._stream, self._partial)
            self._partial = ""

    def flush(self) -> None:
        if self._stream is not None:
            with contextlib.suppress(BrokenPipeError, ValueError):
                self._stream.flush()

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def encoding(self) -> str:
        return getattr(self._stream, "encoding", None) or "utf-8"


class _Handler(logging.Handler):
    """Shows the logger's messages as plain lines; a warning says that it is one."""

    def __init__(self, transcript: Transcript):
        super().__init__()
        self._transcript = transcript

    def emit(self, record: logging.LogRecord) -> None:
        mark = "warning: " if record.levelno >= logging.WARNING else ""
        self._transcript.say(mark + record.getMessage())


def _encodable(text: str, encoding: str | None) -> str:
    """The text with `?` for what the stream can't say, such as a table's lines on Windows."""
    encoding = encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def _is_terminal(stream) -> bool:
    """A terminal on which a line can be drawn anew. A notebook's `!command` only looks like one."""
    dumb = os.environ.get("TERM") == "dumb"
    return stream is not None and stream.isatty() and not in_notebook() and not dumb
