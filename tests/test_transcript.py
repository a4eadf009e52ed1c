"""The transcript: what is printed is in log.txt too, and a status line never is."""

import io
import logging
import subprocess
import sys
import warnings

import pytest

from dqn_lab.transcript import Transcript


class Terminal(io.StringIO):
    """A terminal that remembers all that was written."""

    encoding = "utf-8"

    def isatty(self):
        return True


def use_terminal(monkeypatch):
    """Called in the test itself: pytest puts its own streams back between fixtures and test."""
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    return terminal


def test_what_was_printed_before_the_log_is_in_it_too(tmp_path, capsys):
    with Transcript() as transcript:
        print("early")
        transcript.say("said early")
        transcript.open_log(tmp_path / "log.txt")
        print("late")
        print("to stderr", file=sys.stderr)
    print("after")
    log = (tmp_path / "log.txt").read_text()
    assert log == "early\nsaid early\nlate\nto stderr\n"
    printed = capsys.readouterr()
    assert printed.out == "early\nsaid early\nlate\nafter\n"
    assert printed.err == "to stderr\n"


def test_the_loggers_messages_are_printed_once_and_a_warning_says_so(tmp_path, capsys, caplog):
    logger = logging.getLogger("dqn_lab")
    before = (logger.level, logger.propagate, list(logger.handlers))
    with Transcript() as transcript:
        transcript.open_log(tmp_path / "log.txt")
        logger.info("sampled %d states", 3)
        logger.warning("no file")
        logger.debug("not shown")
    assert (logger.level, logger.propagate, list(logger.handlers)) == before
    assert caplog.records == []  # the root logger's handlers would print them again
    assert capsys.readouterr().out == "sampled 3 states\nwarning: no file\n"
    assert (tmp_path / "log.txt").read_text() == "sampled 3 states\nwarning: no file\n"


def test_a_note_is_in_the_log_only(tmp_path, capsys):
    with Transcript() as transcript:
        transcript.note("before")
        transcript.open_log(tmp_path / "log.txt")
        transcript.note("a traceback\nof two lines")
    assert (tmp_path / "log.txt").read_text() == "before\na traceback\nof two lines\n"
    assert capsys.readouterr().out == ""


def test_python_warnings_are_in_the_log(tmp_path):
    code = (
        "import sys, warnings; from pathlib import Path; from dqn_lab.transcript import Transcript\n"
        "with Transcript() as t:\n"
        "    t.open_log(Path(sys.argv[1])); warnings.warn('mind this')\n"
    )
    path = tmp_path / "log.txt"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "UserWarning: mind this" in done.stderr
    assert path.read_text() == done.stderr


def test_the_log_has_each_line_as_soon_as_it_is_printed(tmp_path):
    with Transcript() as transcript:
        transcript.open_log(tmp_path / "log.txt")
        print("one")
        assert (tmp_path / "log.txt").read_text() == "one\n"


def test_lines_are_written_whole(tmp_path):
    with Transcript() as transcript:
        transcript.open_log(tmp_path / "log.txt")
        print("half", end="")
        transcript.note("between")
        print(" whole")
        print("the end", end="")
    assert (tmp_path / "log.txt").read_text() == "between\nhalf whole\nthe end"


@pytest.mark.case("B117")
def test_without_a_terminal_there_is_no_status_line(tmp_path, capsys):
    with Transcript() as transcript:
        transcript.open_log(tmp_path / "log.txt")
        assert not transcript.interactive
        transcript.show_status("12 updates", 0.5)
        print("a line")
    assert capsys.readouterr().out == "a line\n"
    assert (tmp_path / "log.txt").read_text() == "a line\n"


def test_on_a_terminal_the_status_line_is_drawn_and_not_logged(tmp_path, monkeypatch):
    terminal = use_terminal(monkeypatch)
    with Transcript() as transcript:
        assert transcript.interactive
        transcript.open_log(tmp_path / "log.txt")
        transcript.show_status("12 updates [x]", 0.5)
        print("a [line] above " + "of more than a hundred and twenty columns " * 3)
        transcript.show_status("13 updates", 0.6)
    screen = terminal.getvalue()
    assert "12 updates" in screen
    assert "13 updates" in screen
    line = "a [line] above " + "of more than a hundred and twenty columns " * 3 + "\n"
    assert line in screen  # not broken where the terminal ends
    assert (tmp_path / "log.txt").read_text() == line


@pytest.mark.parametrize(("name", "value"), [("JPY_PARENT_PID", "3"), ("TERM", "dumb")])
def test_a_notebooks_command_line_is_no_terminal(monkeypatch, name, value):
    use_terminal(monkeypatch)
    assert Transcript().interactive
    monkeypatch.setenv(name, value)
    assert not Transcript().interactive


def test_what_a_stream_cannot_say_is_replaced_and_logged_as_it_is(tmp_path, monkeypatch):
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii", newline="")
    monkeypatch.setattr(sys, "stdout", narrow)
    with Transcript() as transcript:
        transcript.open_log(tmp_path / "log.txt")
        print("\u2502 a table")
    narrow.flush()
    assert narrow.buffer.getvalue() == b"? a table\n"
    assert (tmp_path / "log.txt").read_text(encoding="utf-8") == "\u2502 a table\n"


def test_streams_come_back_after_an_error(tmp_path):
    streams = sys.stdout, sys.stderr
    with pytest.raises(KeyError):
        with Transcript() as transcript:
            transcript.open_log(tmp_path / "log.txt")
            raise KeyError("x")
    assert (sys.stdout, sys.stderr) == streams


def test_a_program_may_use_the_stream_as_it_was(capsys):
    with Transcript():
        assert sys.stdout.isatty() is False
        assert sys.stdout.encoding.lower().replace("-", "") == "utf8"
        sys.stdout.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert sys.stdout.write("x\n") == 2
    assert capsys.readouterr().out == "x\n"


def test_a_log_that_finds_no_room_ends_nothing(capsys):
    class Full:
        def write(self, text=""):
            raise OSError(28, "No space left on device")

        close = write

    with Transcript() as transcript:
        transcript._log = Full()
        print("first")
        transcript.note("second")
        transcript.close_log()
        print("third")
    assert capsys.readouterr().out == "first\nthird\n"
