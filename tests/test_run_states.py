"""What became of a run: by its lock, its checkpoint's counters and the last line of its log."""

import os
import shutil

import pytest
from ended_runs import leave_run

from dqn_lab import run_directory as run_directory_module
from dqn_lab.reports.run_states import last_written, reached_counters, run_state
from dqn_lab.run_directory import RunDirectory, is_running
from dqn_lab.run_record import read_run

LEARNT = {"steps": 40, "updates": 10, "minutes": 0.5, "epochs": 2}
ERROR = "dqn-train: error: `loss` must be finite. Received: loss=nan"


def state(directory):
    return run_state(read_run(directory))


@pytest.mark.parametrize(
    ("log", "found"),
    [
        ("epoch 2: ...\nended after 10 updates, 40 steps; saved in x\n", ("finished", "")),
        ("this run is finished: 10 updates; a larger --steps extends it\n", ("finished", "")),
        ("epoch 2: ...\nstopped after 10 updates, 40 steps; saved in x\n\n", ("stopped", "")),
        ("ended after 10 updates\nstopped after 20 updates\n", ("stopped", "")),
        (f"saved in x before ending\nTraceback ...\n{ERROR}\n", ("crashed", ERROR)),
        (
            "stopped after 10 updates\ncontinues at 40 steps\nepoch 3: ...",
            ("crashed", "its log breaks off"),
        ),
        (
            "stopping after this update, then saving; once more ends at once\n",
            ("crashed", "its log breaks off"),
        ),
        ("saved in x before ending\n", ("crashed", "an error ended it; it was saved before")),
        (None, ("stopped", "")),
    ],
)
def test_the_logs_last_line_tells_how_it_ended(tmp_path, log, found):
    assert state(leave_run(tmp_path / "run", log=log, counters=LEARNT)) == found


def test_without_log_checkpoint_and_rows_there_is_nothing_to_continue(tmp_path):
    assert state(leave_run(tmp_path / "none")) == ("crashed", "nothing was saved and there is no log")
    assert state(leave_run(tmp_path / "rows", [{"steps": 40}])) == ("stopped", "")


@pytest.mark.parametrize(
    ("totals", "counters", "found"),
    [
        ({"steps": 40, "updates": "inf", "minutes": "inf"}, {}, "finished"),
        ({"steps": 41, "updates": "inf", "minutes": "inf"}, {}, "crashed"),
        ({"steps": "inf", "updates": 10, "minutes": "inf"}, {}, "finished"),
        ({"steps": "inf", "updates": 11, "minutes": 0.5}, {}, "finished"),
        # Behind the total an evaluation is due: two epochs of 5 updates, one of them carried out.
        ({"updates": 10}, {"epochs": 1}, "crashed"),
        ({"updates": 10}, {"updates": 11, "epochs": 2}, "finished"),
    ],
)
def test_a_total_that_is_reached_finishes_it_whatever_the_log_says(tmp_path, totals, counters, found):
    arguments = {"updates_per_epoch": 5}
    run = leave_run(tmp_path / "run", arguments=arguments, totals=totals, counters=LEARNT | counters, log="epoch\n")
    assert state(run)[0] == found


def test_an_asynchronous_runs_epochs_are_counted_in_steps(tmp_path):
    arguments, totals = {"steps_per_epoch": 20}, {"steps": 40, "minutes": "inf"}
    counters = LEARNT | {"steps": 43}
    done = leave_run(tmp_path / "a", arguments=arguments, totals=totals, counters=counters, log="x")
    due = leave_run(tmp_path / "b", arguments=arguments, totals=totals, counters=counters | {"epochs": 1}, log="x")
    assert (state(done)[0], state(due)[0]) == ("finished", "crashed")


def test_rows_count_where_they_know_of_more_than_the_checkpoint(tmp_path):
    rows = [
        {"steps": 40, "updates": 10, "minutes": 1, "epochs": 1},
        {"steps": 80, "updates": 20, "minutes": 2, "epochs": 2},
    ]
    behind = leave_run(tmp_path / "a", rows, counters=LEARNT | {"steps": 50})
    ahead = leave_run(tmp_path / "b", rows, counters=LEARNT | {"steps": 90})
    assert reached_counters(read_run(behind)) == {"steps": 80, "updates": 20, "minutes": 2, "epochs": 2}
    assert reached_counters(read_run(ahead))["steps"] == 90


def test_a_lock_that_is_held_means_that_it_is_running(tmp_path):
    run = leave_run(tmp_path / "run", log="stopped after 1 updates\n", counters=LEARNT)
    directory = RunDirectory(run)
    directory.open({"format": 2, "arguments": {}})
    assert state(run) == ("running", "")
    directory.release()
    assert state(run) == ("stopped", "")
    shutil.copytree(run, tmp_path / "copy")
    assert state(tmp_path / "copy") == ("stopped", "")


@pytest.mark.posix
def test_looking_writes_nothing_and_needs_no_lock_file(tmp_path):
    run = leave_run(tmp_path / "run")
    assert not is_running(run)
    assert not is_running(tmp_path / "none")
    assert not (run / ".lock").exists()
    (run / ".lock").write_text("")
    os.utime(run / ".lock", (1, 1))
    (run / ".lock").chmod(0o444)
    assert not is_running(run)
    assert (run / ".lock").stat().st_mtime == 1


@pytest.mark.posix
@pytest.mark.parametrize("begin", [RunDirectory.check, lambda directory: directory.open({})])
def test_a_run_that_begins_while_somebody_looks_waits_for_that(tmp_path, monkeypatch, begin):
    import fcntl

    (tmp_path / ".lock").write_text("")
    with open(tmp_path / ".lock", "rb") as looker:
        fcntl.flock(looker, fcntl.LOCK_SH)
        acquire, waited = run_directory_module.FileLock.acquire, []

        def acquire_after_the_look(self, timeout, poll_interval):
            if timeout > 0:  # else it would be tried only once, before that
                fcntl.flock(looker, fcntl.LOCK_UN)
                waited.append(timeout)
            return acquire(self, timeout=timeout, poll_interval=poll_interval)

        monkeypatch.setattr(run_directory_module.FileLock, "acquire", acquire_after_the_look)
        directory = RunDirectory(tmp_path)
        begin(directory)  # it would be refused as if a run were going on
        directory.release()
        assert waited


def test_the_newest_of_all_files_tells_the_age_but_for_the_lock(tmp_path):
    run = leave_run(tmp_path / "run", log="x", counters=LEARNT)
    for path in (run, *run.rglob("*")):
        os.utime(path, (100, 100))
    assert last_written(run) == 100
    os.utime(run / "checkpoints" / "40", (300, 300))
    os.utime(run / "log.txt", (200, 200))
    (run / ".lock").write_text("")
    os.utime(run, (100, 100))
    assert last_written(run) == 300
