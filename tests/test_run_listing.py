"""dqn-runs: which runs it finds, what it prints, that it only reads, and one line for what is wrong."""

import json
import os
import shlex
import subprocess
import sys

import pytest
from ended_runs import leave_run

from dqn_lab import cli
from dqn_lab.reports.run_listing import list_runs, runs_table

NOW = 1_000_000.0
ROWS = [
    {"steps": 4_000, "minutes": 1.5, "eval_return_mean": 7.25},
    {"steps": 8_000, "minutes": 3, "eval_return_mean": -3},
]


def aged(directory, seconds):
    """The directory, last written so long before now."""
    for path in (directory, *directory.rglob("*")):
        os.utime(path, (NOW - seconds, NOW - seconds))
    return directory


@pytest.fixture
def folder(tmp_path):
    """Three runs, at three depths."""
    folder = tmp_path / "runs"
    aged(leave_run(folder / "stopped", ROWS, log="stopped after 2\n", protocol=None), 90)
    aged(leave_run(folder / "deep" / "er" / "killed", log="epoch 1", counters={"steps": 9_000}), 7_300)
    aged(leave_run(folder / "deep" / "ended", ROWS[:1], log="ended after 1\n"), 3)
    return folder


def run(capsys, *words):
    """Exit code and streams of the command."""
    try:
        code = cli.runs([str(word) for word in words])
    except SystemExit as end:
        code = end.code
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_the_table_has_a_line_a_run_the_newest_first(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert runs_table(list_runs("runs"), NOW) == [
        "run                  state     steps   last  best    age  protocol",
        "runs/deep/ended      finished  4,000   7.25  7.25    3 s  classic-control",
        "runs/stopped         stopped   8,000  -3.00  7.25  2 min  -",
        "runs/deep/er/killed  crashed   9,000      -     -    2 h  classic-control",
        "runs/deep/er/killed crashed: its log breaks off",
    ]


def test_nothing_inside_of_a_run_and_nothing_hidden_is_one(folder):
    leave_run(folder / "stopped" / "checkpoints" / "40")
    leave_run(folder / ".hidden" / "run")
    (folder / "deep" / "circle").symlink_to(folder, target_is_directory=True)
    (folder / "deep" / "knot").symlink_to(folder / "deep" / "knot")
    (folder / "deep" / "linked").symlink_to(folder / "stopped", target_is_directory=True)
    names = sorted(str(one.directory.relative_to(folder)) for one in list_runs(folder))
    assert names == ["deep/ended", "deep/er/killed", "deep/linked", "stopped"]
    assert [one.directory for one in list_runs(folder / "stopped")] == [folder / "stopped"]


def test_a_configuration_of_something_else_is_told_and_passed_over(folder):
    for name, text in {"web": '{"port": 80}', "torn": '{"argu', "odd": '{"arguments": {}, "totals": [3]}'}.items():
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(text)
    leave_run(folder / "web" / "run")
    said = []
    names = {one.directory.name for one in list_runs(folder, said.append)}
    assert names == {"ended", "killed", "stopped", "run"}
    assert [line.partition(" is left out: ")[0] for line in said] == [
        str(folder / one) for one in ("odd", "torn", "web")
    ]
    assert all("\n" not in line for line in said)


def test_json_says_the_same(folder, capsys):
    code, out, err = run(capsys, folder, "--json")
    assert (code, err) == (0, "")
    ended, stopped, killed = json.loads(out)
    assert ended.pop("age_seconds") > stopped["age_seconds"] - 90
    assert ended == {
        "run_directory": str(folder / "deep" / "ended"),
        "state": "finished",
        "why": None,
        "steps": 4_000,
        "minutes": 1.5,
        "last": 7.25,
        "best": 7.25,
        "protocol": "classic-control",
    }
    assert (stopped["last"], stopped["best"], stopped["protocol"]) == (-3, 7.25, None)
    assert (killed["state"], killed["last"], killed["steps"]) == ("crashed", None, 9_000)
    assert killed["why"] == "its log breaks off"


def test_it_only_reads(folder, capsys):
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert run(capsys, folder)[0] == 0
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.parametrize(
    ("place", "rule"),
    [("none", "There is no such directory"), ("file", "There is no such directory"), ("", "No run is under")],
)
def test_a_place_without_runs_is_one_line(tmp_path, capsys, place, rule):
    (tmp_path / "file").write_text("")
    code, out, err = run(capsys, tmp_path / place)
    assert (code, out) == (1, "")
    assert err.startswith(f"dqn-runs: error: {rule}")
    assert err.count("\n") == 1


def test_help_is_quick_and_has_examples():
    code = (
        "import sys; from dqn_lab import cli; code = cli.main(sys.argv[1:]);"
        "print(code, [m for m in ('tensorflow', 'keras', 'gymnasium', 'numpy') if m in sys.modules])"
    )
    for command in ("dqn-runs", "dqn-report"):
        done = subprocess.run(
            [sys.executable, "-c", code, command, "--help"], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert f"examples:\n  {command}" in done.stdout
    assert cli.COMMANDS["dqn-runs"][0] is cli.runs


def printed(*words, redirect="", **environment):
    """The command's exit code and its streams, in bytes, by a shell."""
    command = shlex.join([sys.executable, "-m", "dqn_lab.cli", *map(str, words)])
    done = subprocess.run(
        ["sh", "-c", f"{command} {redirect}"], capture_output=True, check=False, env=os.environ | environment
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.posix
def test_a_stream_that_is_closed_is_no_error(folder):
    assert printed("dqn-runs", folder, redirect=">&-") == (0, b"", b"")
    assert printed("dqn-report", folder / "stopped", redirect=">&-") == (0, b"", b"")


@pytest.mark.posix
def test_a_name_that_the_terminal_has_no_signs_for_is_printed_by_their_numbers(folder):
    (folder / "stopped").rename(folder / "r\u00fcn \u2603")
    for command in ("dqn-runs", "dqn-report"):
        code, out, err = printed(command, folder / "r\u00fcn \u2603", PYTHONIOENCODING="ascii", PYTHONUTF8="1")
        assert (code, err) == (0, b"")
        assert b"r\\xfcn \\u2603" in out
    code, out, err = printed("dqn-runs", folder, PYTHONIOENCODING="utf-8", PYTHONUTF8="1")
    assert "r\u00fcn \u2603".encode() in out
