"""Asynchronous runs with one worker that are stopped or killed, and continued, end as if they had been left alone."""

import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import killed_run
import pytest
import toy_async_rundef
from inline_workers import inline
from run_states import _best, flat, names_differing, points, rows

from dqn_lab import cli, resumable_run
from dqn_lab.asynchronous.shared_parameters import SharedParameters
from dqn_lab.asynchronous.shared_progress import COUNTERS, Shared, SharedProgress
from dqn_lab.asynchronous.worker import Worker
from dqn_lab.asynchronous_training import AsynchronousTraining
from dqn_lab.callbacks.checkpoint import BestCheckpoint
from dqn_lab.checkpoint import check_checkpoint, complete_checkpoints
from dqn_lab.run_directory import RunDirectory
from dqn_lab.saved_run import _load_rundef, _resolve
from dqn_lab.saved_state import read_state

SPAWN = multiprocessing.get_context("spawn")
TOY = Path(toy_async_rundef.__file__)
SECONDS = ("acting", "environment", "update")
SMALL = {"steps_per_epoch": 30, "target_period_steps": 20, "evaluation_episodes": 3}
AT_EVERY_SEGMENT = {"checkpoint_period_minutes": 1e-9}
STEPS = 75  # two epochs and a half, in 21 segments or so: they end with episodes, of 9 steps
HANG = 300  # seconds: a guard, no test waits for it

RULES = {
    "one_step_sarsa": {"method": "one_step_sarsa"},
    "a3c": {"method": "a3c"},
    "lstm": {"method": "a3c", "lstm": True},
    "one_step_q": {"method": "one_step_q", "double": True, "dueling": True, "anneal": True, "total_steps": STEPS},
    "n_step_q": {"method": "n_step_q", "double": True},
    "per_worker": {"method": "n_step_q", "rmsprop": "per_worker"},
    "momentum_sgd": {"method": "a3c", "rmsprop": "momentum_sgd"},
}
QUICK = ("one_step_sarsa", "a3c")


def words(directory, settings, steps=STEPS):
    given = SMALL | settings
    return [
        str(TOY),
        f"--run-dir={directory}",
        f"--steps={steps}",
        *(f"--set={key}={value}" for key, value in given.items()),
    ]


def train(directory, settings, steps=STEPS):
    return cli.train(words(directory, settings, steps))


def everything(folder):
    """All that runs are compared by, by name: the newest checkpoint and what follows from it, the curves, the best."""
    training = newest_state(folder)["training"]
    found = flat("next", next_updates(folder, training))
    training["counters"] = dict(zip(COUNTERS, training["counters"].T, strict=True))
    for each in (training["counters"], training["marks"]):
        for name in SECONDS:
            each.pop(name, None)
    callbacks = newest_state(folder)["callbacks"]
    parts = {"row": rows(folder), "point": points(folder), "best": _best(folder)}
    found |= {f"{kind} {name}": value for kind, part in parts.items() for name, value in part.items()}
    return found | flat("saved", {"training": training, "callbacks": callbacks})


def newest_state(folder):
    return read_state(complete_checkpoints(folder / "checkpoints")[-1], "state")


def next_updates(folder, training, count=9):
    """What the worker of a continued run shares and stands before after so many updates more."""
    config = RunDirectory(folder).read_config()
    rundef = _load_rundef(config, folder)
    run = rundef.build(_resolve(rundef, config["arguments"]))
    shared = Shared(SharedParameters(run.agent.get_parameters().size, SPAWN), SharedProgress(1, SPAWN))
    shared.parameters.set_state(training["shared"])
    shared.progress.counters[:] = training["counters"]
    worker = Worker(0, *pickle.loads(run.worker_payload), shared)
    worker.set_state(training["workers"][0])
    for _ in range(count):
        worker.learn()
    return {"shared": shared.parameters.get_state(), "worker": worker.get_state()}


def copies(now, directory, waits):
    """Has a run's directory copied as a kill in these waits would leave it; returns the copies' places."""
    places = {wait: directory.with_name(f"{directory.name}-{wait}") for wait in waits}

    def copy(team):
        if team.waits in places:
            shutil.copytree(directory, places[team.waits])

    now.on_wait = copy
    return places


class Request:
    """Stands where `Interruption` stands."""

    requested = False

    def __init__(self, **options):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


@pytest.fixture
def request_to_stop(monkeypatch):
    monkeypatch.setattr(resumable_run, "Interruption", Request)
    monkeypatch.setattr(Request, "requested", False)
    return lambda: setattr(Request, "requested", True)


@pytest.mark.parametrize(
    "rule", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in RULES]
)
def test_a_run_goes_on_exactly_from_any_segment(rule, tmp_path, capsys, request):
    if rule == QUICK[0]:
        request.getfixturevalue("stopped_and_killed")
    settings = RULES[rule] | AT_EVERY_SEGMENT
    whole = tmp_path / "run"
    with inline() as now:
        now.evaluated = lambda seconds: seconds > 0  # no evaluation comes in before the run's end
        places = copies(now, whole, [31] if rule in QUICK else [8, 31])
        assert train(whole, settings) == 0
    expected = everything(whole)
    pending = []
    for place in places.values():
        newest = complete_checkpoints(place / "checkpoints")[-1]
        pending.append(len(read_state(newest, "state")["training"]["pending"]))
        capsys.readouterr()
        with inline():
            assert train(place, settings) == 0
        assert f"continues at {newest.name} steps, " in (said := capsys.readouterr().out)
        assert "updates, exactly\n" in said
        assert names_differing(expected, everything(place)) == []
    assert pending == [0, 2][-len(places) :]


def test_a_run_that_was_asked_to_stop_goes_on_inside_its_epoch_and_one_evaluation_later(
    tmp_path, request_to_stop, capsys
):
    settings = RULES["a3c"]
    with inline():
        assert train(tmp_path / "whole", settings) == 0
    with inline() as now:
        now.evaluated = lambda seconds: False
        now.on_wait = lambda team: team.waits == 12 and request_to_stop()
        assert train(tmp_path / "parts", settings) == 130
    assert len(newest_state(tmp_path / "parts")["training"]["pending"]) == 1
    assert (tmp_path / "parts" / "progress.csv").read_text().count("\n") == 1
    Request.requested = False
    with inline():
        assert train(tmp_path / "parts", settings) == 0
    said = capsys.readouterr().out
    assert [said.count(f"\nepoch {n}") for n in (1, 2, 3)] == [2, 3, 2]  # stopped in the midst of epoch 2
    assert names_differing(everything(tmp_path / "whole"), everything(tmp_path / "parts")) == []


def test_a_run_whose_steps_are_made_gets_the_evaluations_that_are_left_once(tmp_path, request_to_stop, capsys):
    settings = RULES["one_step_sarsa"]
    with inline():
        assert train(tmp_path / "whole", settings) == 0
    with inline() as now:
        now.evaluated = lambda seconds: seconds > 0 and request_to_stop()  # asked while it waits for the first of two
        assert train(tmp_path / "parts", settings) == 130
    assert len(newest_state(tmp_path / "parts")["training"]["pending"]) == 2
    Request.requested = False
    capsys.readouterr()
    with inline() as now:
        now.on_wait = lambda team: pytest.fail("nothing was left to learn")
        assert train(tmp_path / "parts", settings) == 0
        assert train(tmp_path / "parts", settings) == 0
    said = capsys.readouterr().out
    assert said.count("evaluation at") == 2
    assert "this run is finished: " in said
    assert names_differing(everything(tmp_path / "whole"), everything(tmp_path / "parts")) == []


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew(tmp_path, capsys):
    settings = RULES["a3c"]
    with inline() as now:
        (copy,) = copies(now, tmp_path / "run", [4]).values()
        assert train(tmp_path / "run", settings) == 0
    with inline():
        assert train(copy, settings) == 0
    assert "the run that is here has no checkpoint yet: it begins anew\n" in capsys.readouterr().out
    assert names_differing(everything(tmp_path / "run"), everything(copy)) == []


def test_a_run_without_evaluation_that_was_killed_before_it_wrote_a_row_writes_it_first(tmp_path, monkeypatch):
    settings = RULES["a3c"] | {"evaluation_period_epochs": 0}
    deliver, copy = AsynchronousTraining._deliver, tmp_path / "killed"

    def deliver_and_copy(training):
        if not copy.exists():
            shutil.copytree(tmp_path / "run", copy)
        deliver(training)

    monkeypatch.setattr(AsynchronousTraining, "_deliver", deliver_and_copy)
    with inline():
        assert train(tmp_path / "run", settings) == 0
    seen = []
    with inline() as now:
        now.on_wait = lambda team: seen.append((copy / "progress.csv").read_text().count("\n"))
        assert train(copy, settings) == 0
    assert seen[0] == 2  # names and epoch 1
    assert names_differing(everything(tmp_path / "run"), everything(copy)) == []


def test_a_callback_that_raises_at_an_epochs_end_costs_no_update_and_no_row(tmp_path, monkeypatch):
    settings = RULES["a3c"] | {"evaluation_period_epochs": 2}
    with inline():
        assert train(tmp_path / "whole", settings, 135) == 0
    write = BestCheckpoint.on_epoch_end  # the last callback: the row is written by then

    def fail(callback, epoch, logs=None):
        write(callback, epoch, logs)
        if epoch == 1:
            raise RuntimeError("after the row")

    monkeypatch.setattr(BestCheckpoint, "on_epoch_end", fail)
    with inline() as now:
        now.evaluated = lambda seconds: now.team.waits > 20  # workers are in the midst of an epoch
        assert train(tmp_path / "parts", settings, 135) == 1
    state = newest_state(tmp_path / "parts")
    assert state["counters"]["epochs"] == 1 and state["counters"]["steps"] > 65
    monkeypatch.undo()
    with inline():
        assert train(tmp_path / "parts", settings, 135) == 0
    assert names_differing(everything(tmp_path / "whole"), everything(tmp_path / "parts")) == []


# Real processes. A program's output is over when every process that was begun by it has ended.

STOPPED = """
import os, signal, sys
from dqn_lab import asynchronous_training, cli
submit = asynchronous_training.AsynchronousTraining._submit

def submit_and_stop(training, record):
    submit(training, record)
    if not record["epoch"]:
        os.killpg(0, signal.SIGINT)  # as a terminal does: the children hear it too

asynchronous_training.AsynchronousTraining._submit = submit_and_stop
sys.exit(cli.train(sys.argv[1:]))
"""
RECEIVED = "dqn_lab.asynchronous_training:AsynchronousTraining._receive"


def run_to_its_end(process):
    try:
        return process.communicate(timeout=HANG)[0]
    except subprocess.TimeoutExpired:
        process.kill()  # the others end with it, which is what the caller waited for
        process.communicate(timeout=HANG)
        raise


def stop_and_kill(directory, settings):
    """Ctrl-C when the first evaluation has been asked for; then a kill when the second one has come in."""
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "start_new_session": True}
    command = [sys.executable, "-c", STOPPED, *words(directory, settings, 10**9)]
    process = subprocess.Popen(command, env=environment, **options)
    said = [run_to_its_end(process)]
    codes = [process.returncode]
    steps = check_checkpoint(complete_checkpoints(directory / "checkpoints")[-1])["counters"]["steps"]
    process = killed_run.begin(RECEIVED, 2, words(directory, settings, steps + 50))
    said.append(run_to_its_end(process))
    return [*codes, process.returncode], said, steps


@pytest.fixture(scope="module")
def stopped_and_killed(tmp_path_factory):
    """Beside the other tests: rule -> future of what `stop_and_kill` returns, in the directory of that name."""
    folder = tmp_path_factory.mktemp("killed")
    with ThreadPoolExecutor(1) as pool:
        yield folder, pool.submit(stop_and_kill, folder / "lstm", RULES["lstm"])


def look_at_the_end(directory, settings, found):
    (stopped, killed), (first, second), steps = found
    assert (stopped, killed) == (130, -signal.SIGKILL), (first, second)
    assert "stopping after the segments in progress, then saving; once more ends at once\n" in first
    assert "stopped after " in first and f" {steps:,} steps, " in first and "Traceback" not in first
    assert f"continues at {steps:,} steps, " in second and "updates, exactly\n" in second
    assert second.count("evaluation at") == 1
    with inline():
        assert train(directory, settings, steps + 50) == 0
        assert train(directory.with_name("whole"), settings, steps + 50) == 0
    return names_differing(everything(directory.with_name("whole")), everything(directory))


@pytest.mark.posix
def test_a_run_that_was_stopped_then_killed_ends_as_if_it_had_been_left_alone_and_leaves_no_process(
    stopped_and_killed,
):
    folder, future = stopped_and_killed
    assert look_at_the_end(folder / "lstm", RULES["lstm"], future.result()) == []


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.parametrize("rule", [name for name in RULES if name not in ("lstm", "one_step_q")])
def test_every_rule_is_stopped_then_killed_and_goes_on(rule, tmp_path):
    assert look_at_the_end(tmp_path / rule, RULES[rule], stop_and_kill(tmp_path / rule, RULES[rule])) == []
