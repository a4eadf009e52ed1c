"""Asynchronous runs: assembled, carried out in a directory of their own, watched, saved, and how they end."""

import csv
import errno
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import toy_async_rundef
from inline_workers import inline
from run_states import points

from dqn_lab import cli, load_agent, load_run, resumable_run, run_checkpoints, training
from dqn_lab.asynchronous.evaluator import EvaluatorError
from dqn_lab.checkpoint import check_checkpoint, complete_checkpoints

TOY = str(Path(toy_async_rundef.__file__))
HANG = 300  # seconds: a guard, no test waits for it


def words(directory, *options, **settings):
    return [TOY, f"--run-dir={directory}", *options, *(f"--set={key}={value}" for key, value in settings.items())]


def train(directory, *options, **settings):
    return cli.train(words(directory, *options, **settings))


def rows(directory):
    with open(directory / "progress.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def saved(directory):
    """Steps of the checkpoints, and the counters of the newest one."""
    found = complete_checkpoints(directory / "checkpoints")
    return [int(path.name) for path in found], check_checkpoint(found[-1])["counters"]


def refused(capsys, *given, code=1, **settings):
    """The one line that a command is refused with."""
    assert train(*given, **settings) == code
    return capsys.readouterr().err.splitlines()[-1]


@pytest.fixture
def now():
    with inline() as moments:
        yield moments


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when they are told to, for the training."""
    fake = SimpleNamespace(seconds=0.0, perf_counter=lambda: fake.seconds)
    monkeypatch.setattr(training, "time", fake)
    return fake


# Records.


@pytest.mark.parametrize("late", [False, True])
def test_a_row_tells_of_its_epochs_end_however_late_its_evaluation_comes_in(now, clock, tmp_path, late):
    seen = {}

    def pass_a_second(team):
        clock.seconds += 1.0
        counted = team.shared.progress.totals()
        seen.setdefault(int(counted["steps"]), (clock.seconds, counted))

    now.on_wait, now.segments_first = pass_a_second, 3  # a game ends before the first wait
    if late:
        now.evaluated = lambda seconds: seconds > 0
        now.on_receive = lambda: setattr(clock, "seconds", clock.seconds + 1000.0)
    assert train(tmp_path / "run") == 0
    before = (0.0, dict.fromkeys(seen[min(seen)][1], 0.0))
    assert seen[min(seen)][1]["episodes"] == 1
    assert len(rows(tmp_path / "run")) == 3
    for epoch, row in enumerate(rows(tmp_path / "run"), 1):
        at, counted = seen[int(row["steps"])]  # first seen by the wait behind its last segment
        assert 60 * epoch <= int(row["steps"]) < 60 * epoch + 5
        assert [int(row[name]) for name in ("frames", "updates", "episodes", "epochs")] == [
            *(int(counted[name]) for name in ("frames", "updates", "episodes")),
            epoch,
        ]
        since = {name: counted[name] - before[1][name] for name in counted}
        assert float(row["minutes"]) == pytest.approx(at / 60, rel=1e-6)
        assert float(row["steps_per_second"]) == pytest.approx(since["steps"] / (at - before[0]), rel=1e-6)
        assert float(row["loss"]) == pytest.approx(since["loss_sum"] / since["learnt_steps"], rel=1e-6)
        assert float(row["q_mean"]) == pytest.approx(since["value_sum"] / since["learnt_steps"], rel=1e-6)
        games = since["episodes"]
        assert float(row["train_return_mean"]) == pytest.approx(since["episode_return_sum"] / games, rel=1e-6)
        assert float(row["train_length_mean"]) == pytest.approx(since["episode_length_sum"] / games, rel=1e-6)
        before = at, counted


def test_minutes_and_rates_go_on_where_a_run_was_killed_as_if_no_time_had_passed(now, clock, tmp_path):
    run, copy = tmp_path / "run", tmp_path / "killed"
    given = {"steps_per_epoch": 30, "total_steps": 75, "checkpoint_period_minutes": 1e-9}

    def pass_a_second(team):
        if team.waits == 21 and not copy.exists():  # behind a save
            shutil.copytree(run, copy)
        clock.seconds += 1.0

    now.on_wait = pass_a_second
    now.evaluated = lambda seconds: seconds > 0
    assert train(run, **given) == 0
    clock.seconds += 500.0
    assert rows(copy) == []  # the first epoch's was still to come
    assert train(copy, **given) == 0
    timed = [
        [[float(row[name]) for name in ("minutes", "steps_per_second", "updates_per_second")] for row in rows(folder)]
        for folder in (run, copy)
    ]
    assert len(timed[0]) == 2
    assert np.allclose(*timed, rtol=1e-6)


def test_an_epoch_is_evaluated_with_the_parameters_it_ended_with(now, tmp_path):
    kept, run = [], toy_async_rundef.run(method="a3c", evaluation_episodes=30)

    class Look(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            kept.append((self.model.get_parameters(), logs["eval_return_mean"], self.model.sequence.steps))

    at_end = {}
    now.on_wait = lambda team: at_end.update({team.shared.parameters.steps: team.shared.parameters.parameters.copy()})
    now.evaluated = lambda seconds: seconds > 0
    assert run.train(tmp_path / "run", callbacks=[Look()])
    assert len(kept) == 3
    assert all(np.array_equal(parameters, at_end[steps]) for parameters, _, steps in kept)
    best = max(kept, key=lambda one: one[1])
    assert np.array_equal(load_agent(tmp_path / "run").get_parameters(), best[0])
    assert saved(tmp_path / "run")[1]["steps"] == kept[-1][2]
    assert np.array_equal(run.agent.get_parameters(), kept[-1][0])


@pytest.mark.parametrize(("period", "evaluated"), [(0, []), (1, [1, 2, 3, 4]), (2, [1, 2, 4])])
def test_every_so_many_epochs_are_evaluated(now, tmp_path, period, evaluated):
    assert train(tmp_path / "run", evaluation_period_epochs=period, total_steps=240) == 0
    found = rows(tmp_path / "run")
    assert [epoch for epoch, row in enumerate(found, 1) if row["eval_return_mean"]] == evaluated
    assert all(row["loss"] for row in found) and len(found) == 4
    assert (tmp_path / "run" / "best").exists() is (period > 0)
    assert now.ended == (2 if period else 1)


def test_an_epoch_that_is_not_whole_at_the_end_has_a_point_and_no_row(now, tmp_path, capsys):
    assert train(tmp_path / "run", total_steps=100) == 0
    assert len(rows(tmp_path / "run")) == 1
    steps = saved(tmp_path / "run")[1]["steps"]
    assert [tag for tag in points(tmp_path / "run") if tag.startswith("train/loss")] == [
        f"train/loss at {rows(tmp_path / 'run')[0]['steps']}",
        f"train/loss at {steps}",
    ]
    assert "epoch 2, in its course: " in capsys.readouterr().out


def test_epochs_shorter_than_a_segment_are_all_told(now, tmp_path, capsys):
    assert train(tmp_path / "run", steps_per_epoch=1, total_steps=9, evaluation_period_epochs=0) == 0
    assert len(rows(tmp_path / "run")) == saved(tmp_path / "run")[1]["steps"]
    assert train(tmp_path / "run", steps_per_epoch=1, total_steps=9, evaluation_period_epochs=0) == 0
    assert "this run is finished: " in capsys.readouterr().out


def test_steps_of_all_workers_count(now, tmp_path):
    assert train(tmp_path / "run", num_workers=3) == 0
    counters = saved(tmp_path / "run")[1]
    assert 180 <= counters["steps"] < 180 + 3 * 5
    assert counters["steps"] == sum(worker._sequence.steps for worker in now.team.workers)
    assert len({worker._sequence.seed for worker in now.team.workers}) == 3


# Totals and settings.


def test_a_run_ends_at_its_steps_or_minutes_whichever_is_first(now, clock, tmp_path, capsys):
    now.on_wait = lambda team: setattr(clock, "seconds", clock.seconds + 1.0)
    assert train(tmp_path / "run", "--minutes=0.15") == 0
    assert saved(tmp_path / "run")[1]["minutes"] == pytest.approx(10 / 60)  # 9 s, and the segment in progress
    assert train(tmp_path / "run", "--minutes=0.15") == 0
    assert "this run is finished: " in (said := capsys.readouterr().out)
    assert "a larger --minutes extends it" in said
    assert train(tmp_path / "run", "--steps=90") == 0
    assert 90 <= saved(tmp_path / "run")[1]["steps"] < 95
    assert train(tmp_path / "run") == 0
    assert 180 <= saved(tmp_path / "run")[1]["steps"] < 185


def test_a_total_need_not_be_whole(now, tmp_path):
    assert train(tmp_path / "run", total_steps=90.5) == 0
    assert saved(tmp_path / "run")[1]["steps"] >= 91


def test_where_the_learning_rate_falls_over_the_total_it_stays(now, tmp_path, capsys):
    anneal = {"anneal": True, "total_steps": 60}
    line = refused(capsys, tmp_path / "run", "--steps=61", **anneal)
    assert "behind 60 steps the learning rate is 0 (total_steps, anneal): nothing would be learnt. " in line
    assert not (tmp_path / "run").exists()
    assert train(tmp_path / "run", "--steps=40", **anneal) == 0
    line = refused(capsys, tmp_path / "run", anneal=True, total_steps=90)
    assert "the run in this directory has other settings: total_steps 60 -> 90." in line
    assert train(tmp_path / "run", **anneal) == 0
    assert "learning rate 0.001, falling to 0 at 60 steps\n" in capsys.readouterr().out


def test_settings_that_no_update_depends_on_may_change(now, tmp_path, capsys):
    assert train(tmp_path / "run", total_steps=40) == 0
    for name, value, before in (("t_max", 6, 5), ("num_workers", 2, 1), ("rmsprop", "per_worker", "shared")):
        line = refused(capsys, tmp_path / "run", total_steps=60, **{name: value})
        assert f"has other settings: {name} {before} -> {value}." in line
    assert train(tmp_path / "run", total_steps=60, evaluation_episodes=2, keep=1) == 0
    steps, counters = saved(tmp_path / "run")
    assert len(steps) == 1 and counters["steps"] >= 60


def test_check_prints_a_segment_and_begins_nothing(now, tmp_path, capsys):
    assert train(tmp_path / "run", "--check", method="one_step_sarsa") == 0
    said = capsys.readouterr().out
    for line in ("segment state: ", "segment next_action: ", "mean value: ", "loss: "):
        assert f"\n{line}" in said
    assert "gradient norm" in said
    assert now.team is None and not (tmp_path / "run").exists()


def test_it_says_how_it_learns_and_saves(now, tmp_path, capsys):
    assert train(tmp_path / "run", num_workers=2, method="a3c", checkpoint_period_minutes="none") == 0
    said = capsys.readouterr().out
    assert "method: a3c (entropy_beta=0.01, value_loss_coefficient=0.5), 2 workers, segments of 5 steps, lea" in said
    assert "saves: every 60 steps and at the end; the same command continues the run (not exact: 2 workers" in said
    assert train(tmp_path / "run", "--steps=240", num_workers=2, method="a3c", checkpoint_period_minutes="none") == 0
    assert "updates, not exact: 2 workers update at once, in no fixed order\n" in capsys.readouterr().out


# What is left behind is used.


@pytest.mark.parametrize("settings", [{"method": "a3c", "lstm": True}, {"method": "n_step_q", "dueling": True}])
def test_a_run_can_be_loaded_and_played(now, tmp_path, settings):
    assert train(tmp_path / "run", total_steps=60, **settings) == 0
    loaded = load_run(tmp_path / "run", num_envs=2)
    assert loaded.agent.actor_critic is (settings["method"] == "a3c")
    assert loaded.arguments["total_steps"] == 60
    for _ in range(10):
        loaded.sequence.simulate_single()
    assert loaded.sequence.get_latest_reward().shape == (2,)
    newest = load_agent(tmp_path / "run", "latest")
    assert newest.updates == saved(tmp_path / "run")[1]["updates"]
    assert np.array_equal(newest.get_parameters(), now.team.shared.parameters.parameters)


def test_a_greedy_actor_critic_is_evaluated_and_saved_as_such(now, tmp_path):
    for greedy in (False, True):
        folder = tmp_path / str(greedy)
        assert train(folder, method="a3c", total_steps=60, greedy=greedy, evaluation_episodes=20) == 0
        assert load_agent(folder).greedy is greedy
    sampled, likeliest = (rows(tmp_path / name)[0] for name in ("False", "True"))
    assert sampled["loss"] == likeliest["loss"]
    assert sampled["eval_return_mean"] != likeliest["eval_return_mean"]


def test_another_run_begins_with_its_weights(now, tmp_path, capsys):
    assert train(tmp_path / "first", method="a3c", total_steps=60) == 0
    begun = {}
    now.on_wait = lambda team: begun.setdefault("parameters", team.shared.parameters.get_state())
    weights = {"initial_weights": tmp_path / "first"}
    assert train(tmp_path / "second", method="a3c", total_steps=60, **weights) == 0
    expected = load_agent(tmp_path / "first").get_parameters()
    assert np.array_equal(begun["parameters"]["parameters"], expected)
    assert np.array_equal(begun["parameters"]["target_parameters"], expected)
    assert not begun["parameters"]["statistics"].any()
    capsys.readouterr()
    line = refused(capsys, tmp_path / "third", method="one_step_q", **weights)
    assert "`initial_weights` must fit the network" in line


# Ends of other kinds.


class Request:
    """Stands where `Interruption` stands."""

    requested = False

    def __init__(self, **options):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def test_a_run_asked_to_stop_before_its_first_update_leaves_nothing(now, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(resumable_run, "Interruption", Request)
    monkeypatch.setattr(Request, "requested", True)
    now.on_wait = lambda team: team.meet()
    assert train(tmp_path / "run") == 130
    assert "stopped before the first update: nothing was learnt" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert now.ended == 2


def fail_in_wait(number, error, worker=0):
    """A team's worker that raises at its next step, from a wait on."""

    def boom():
        raise error

    def on_wait(team):
        if team.waits == number:
            team.workers[worker].learn = boom

    return on_wait


@pytest.mark.parametrize("workers", [1, 2])
def test_when_a_worker_fails_the_rest_is_saved_and_goes_on(now, tmp_path, capsys, workers):
    now.on_wait = fail_in_wait(18, RuntimeError("boom"), workers - 1)
    assert train(tmp_path / "run", num_workers=workers) == 1
    out, err = capsys.readouterr()
    log = (tmp_path / "run" / "log.txt").read_text()
    for said in (out, log):
        assert "in boom\n    raise error\nRuntimeError: boom\n" in said
        assert f"saved in {tmp_path / 'run' / 'checkpoints'} before ending\n" in said
    assert f"dqn-train: error: worker {workers - 1} failed: RuntimeError: boom" in err
    steps, counters = saved(tmp_path / "run")
    assert counters["steps"] == now.team.shared.parameters.steps > 60
    assert now.ended == 2
    now.on_wait = lambda team: None
    assert train(tmp_path / "run", num_workers=workers) == 0
    said = capsys.readouterr().out
    assert f"continues at {counters['steps']} steps, {counters['updates']} updates, not exact: episodes begin" in said
    assert ("2 workers update at once" in said) is (workers == 2)
    assert saved(tmp_path / "run")[1]["steps"] >= 180
    assert [row["epochs"] for row in rows(tmp_path / "run")] == ["1", "2", "3"]


def test_a_run_whose_worker_cannot_be_built_leaves_its_log(now, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("inline_workers.Worker", lambda *given: (_ for _ in ()).throw(RuntimeError("no such world")))
    assert train(tmp_path / "run") == 1
    assert os.listdir(tmp_path / "run") == ["log.txt"]
    assert "no such world" in (tmp_path / "run" / "log.txt").read_text()


def test_numbers_that_are_not_finite_end_it_unsaved(now, tmp_path, capsys):
    now.on_wait = lambda team: team.waits == 18 and team.shared.parameters.parameters.fill(np.nan)
    assert train(tmp_path / "run") == 1
    out, err = capsys.readouterr()
    assert err.startswith("dqn-train: error: ") and "orker 0" in err and "NaN" in err
    steps, counters = saved(tmp_path / "run")
    assert counters["epochs"] == 0 and len(steps) == 1  # of the first epoch's end
    newest = tmp_path / "run" / "checkpoints" / str(steps[0])
    assert f"nothing is saved of a run whose figures are not finite; the last good checkpoint is {newest}\n" in out


def test_parameters_that_are_not_finite_are_not_saved(now, tmp_path, capsys):
    def spoil(team):
        if team.states is None and team.shared.parameters.steps >= 60:
            team.shared.parameters.parameters[0] = np.nan

    now.on_wait = spoil
    assert train(tmp_path / "run") == 1
    assert "are not finite; they are not saved." in capsys.readouterr().err
    assert [one.name for one in (tmp_path / "run").iterdir()] == ["log.txt"]  # so other settings may be tried there


def test_a_worker_that_does_not_finish_its_segment_is_ended_where_the_run_is_asked_to_stop(
    now, clock, tmp_path, monkeypatch, capsys
):
    def hang(team):
        if team.shared.parameters.steps >= 45 and team.workers[1] is not None:
            Request.requested = True
            team.workers[1].is_due, team.workers[1].learn = (lambda: False), (lambda: None)
            clock.seconds += 20.0

    monkeypatch.setattr(resumable_run, "Interruption", Request)
    monkeypatch.setattr(Request, "requested", False)
    now.on_wait = hang
    assert train(tmp_path / "run", num_workers=2, t_max=5) == 130
    assert "worker 1 has not finished its segment and is ended" in capsys.readouterr().out
    steps, _ = saved(tmp_path / "run")
    assert steps[-1] >= 45


def test_when_an_evaluation_fails_the_rest_is_saved_and_it_is_made_where_the_run_goes_on(now, tmp_path, capsys):
    def fail():
        raise EvaluatorError("ArithmeticError: no evaluation", "Traceback ...\nArithmeticError: no evaluation")

    now.on_receive = fail
    assert train(tmp_path / "run") == 1
    out, err = capsys.readouterr()
    assert "\nTraceback ...\nArithmeticError: no evaluation\n" in out
    assert "error: the evaluation process failed: ArithmeticError: no evaluation" in err
    assert saved(tmp_path / "run")[1]["epochs"] == 0
    assert rows(tmp_path / "run") == [] and now.ended == 2
    now.on_receive = lambda: None
    assert train(tmp_path / "run") == 0
    assert "updates, exactly\n" in capsys.readouterr().out
    assert [row["epochs"] for row in rows(tmp_path / "run")] == ["1", "2", "3"]


def test_a_disk_without_room_is_told_and_tried_again_in_a_minute(now, clock, tmp_path, capsys, monkeypatch):
    write, failed = run_checkpoints.write_checkpoint, []

    def write_once_there_is_room(*given, **facts):
        if not failed:
            failed.append(clock.seconds)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        tried.append(clock.seconds)
        return write(*given, **facts)

    tried = []
    now.on_wait = lambda team: setattr(clock, "seconds", clock.seconds + 25.0)
    monkeypatch.setattr(run_checkpoints, "write_checkpoint", write_once_there_is_room)
    assert train(tmp_path / "run", checkpoint_period_minutes=1000) == 0
    said = capsys.readouterr().out
    assert "No space left on device; there is no earlier checkpoint; training goes on, the next try is in a min" in said
    assert 60 <= tried[0] - failed[0] <= 100
    assert len(rows(tmp_path / "run")) == 3


def test_a_disk_without_room_at_the_end_is_an_error(now, tmp_path, capsys, monkeypatch):
    def fail(*given, **facts):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(run_checkpoints, "write_checkpoint", fail)
    assert train(tmp_path / "run") == 1
    assert "the run could not be saved at " in capsys.readouterr().err


def test_the_clock_decides_on_checkpoints_inside_an_epoch(now, clock, tmp_path):
    now.on_wait = lambda team: setattr(clock, "seconds", clock.seconds + 1.0)
    kept = {"keep": 99, "steps_per_epoch": 1000, "evaluation_period_epochs": 0}
    assert train(tmp_path / "run", checkpoint_period_minutes=0.1, **kept) == 0
    assert len(saved(tmp_path / "run")[0]) > 3
    assert train(tmp_path / "never", checkpoint_period_minutes="none", **kept) == 0
    assert len(saved(tmp_path / "never")[0]) == 1


# Real processes. A program's output is over when every process that was begun by it has ended.

PROGRAM = """
import multiprocessing, os, signal, sys
from dqn_lab import asynchronous_training, cli
submit = asynchronous_training.AsynchronousTraining._submit

def child(name):
    return next(each.pid for each in multiprocessing.active_children() if each.name == name)

def submit_and_act(training, record):
    submit(training, record)
    if record["epoch"] == 1:
        exec(sys.argv[1])

asynchronous_training.AsynchronousTraining._submit = submit_and_act
sys.exit(cli.train(sys.argv[2:]))
"""


def run_program(action, *given):
    """Exit code and output of `dqn-train`, which does something when its second epoch's steps have been made."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, action, *given],
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said = process.communicate(timeout=HANG)[0]
    except subprocess.TimeoutExpired:
        process.kill()  # the others end with it, which is what was waited for
        process.communicate(timeout=HANG)
        raise
    return process.returncode, said


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.parametrize(
    ("action", "code", "told", "log"),
    [
        ("os.killpg(0, signal.SIGTERM)", 130, "stopped after ", "stopped after "),
        (
            "for _ in range(2):\n os.killpg(0, signal.SIGINT)\n while not training._interruption.requested: pass\n"
            "while True: signal.pause()",
            130,
            "once more ends at once",
            "",
        ),
        (
            "os.kill(child('worker 1'), signal.SIGKILL)",
            1,
            "worker 1 failed: its process ended by signal 9",
            "its process ended by signal 9\nsaved in ",
        ),
        (
            "os.kill(child('evaluator'), signal.SIGKILL)",
            1,
            "the evaluation process failed: it ended without a word, with exit code -9",
            "it ended without a word, with exit code -9\nsaved in ",
        ),
    ],
    ids=["sigterm", "ctrl-c twice", "worker killed", "evaluator killed"],
)
def test_whatever_ends_a_run_no_process_is_left_and_it_goes_on(now, tmp_path, capsys, action, code, told, log):
    given = {"num_workers": 2, "total_steps": 10**9}
    ended, said = run_program(action, *words(tmp_path / "run", **given))
    assert ended == code, said
    assert told in said
    assert log in (tmp_path / "run" / "log.txt").read_text()
    steps = saved(tmp_path / "run")[1]["steps"]
    assert train(tmp_path / "run", **given | {"total_steps": steps + 40}) == 0
    assert f"continues at {steps:,} steps, " in capsys.readouterr().out


@pytest.mark.slow
def test_a_worker_that_fails_tells_its_traceback_and_the_rest_is_saved(now, tmp_path, capsys):
    given = {"total_steps": 10**9, "boom_at_step": 100, "evaluation_period_epochs": 0, "num_workers": 2}
    code, said = run_program("pass", *words(tmp_path / "run", **given))
    assert code == 1, said
    for text in (said, (tmp_path / "run" / "log.txt").read_text()):
        assert re.search(r", in step\n(.*\n)?RuntimeError: boom\n", text)
        assert f"saved in {tmp_path / 'run' / 'checkpoints'} before ending\n" in text
    assert "error: worker " in said
    steps = saved(tmp_path / "run")[1]["steps"]
    assert train(tmp_path / "run", **given | {"total_steps": steps + 40}) == 0
    assert "not exact: episodes begin anew; 2 workers" in capsys.readouterr().out


@pytest.mark.slow
def test_several_seeds_are_trained_in_turn(tmp_path, capfd):
    assert train(tmp_path, "--seeds=0,1") == 0
    for seed in (0, 1):
        assert len(rows(tmp_path / f"seed{seed}")) == 3
    assert "seed 1: 2 of 2, in " in capfd.readouterr().out
