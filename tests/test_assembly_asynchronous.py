"""Asynchronous assembly: the run's parts from a rundef's arguments, and what doesn't go together."""

import logging
import math
import pickle
import re
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest
import toy_async_rundef

import dqn_lab.asynchronous_assembly as assembling
from dqn_lab import cli
from dqn_lab.assembly import check_arguments, playing_arguments
from dqn_lab.asynchronous.settings import AsynchronousSettings
from dqn_lab.asynchronous_assembly import AsynchronousAssembly
from dqn_lab.environments.catch import Catch
from dqn_lab.rundef import SettingError, load_rundef
from dqn_lab.rundef_keys import ASYNCHRONOUS_KEYS, COMMON_KEYS, REPLAY_KEYS, why_not_a_key

TOY = Path(toy_async_rundef.__file__)
ATARI = {"game": "pong", "protocol": "nature-2015", "method": "one_step_q"}


class Built:
    """Stands in for the run, and keeps what it is given."""

    def __init__(self, make_sequence, network, method, settings, **others):
        self.make_sequence, self.network, self.method, self.settings = make_sequence, network, method, settings
        self.others = others


@pytest.fixture
def build(monkeypatch):
    monkeypatch.setattr(assembling, "AsynchronousRun", Built)
    return toy_async_rundef.run


def test_the_settings_are_the_rundefs(build):
    given = {
        "num_workers": 3,
        "t_max": 7,
        "seed": 5,
        "learning_rate": 0.25,
        "gradient_clip": 2.0,
        "rmsprop": "per_worker",
        "rmsprop_epsilon": 0.5,
        "rmsprop_start": 0.125,
        "target_period_steps": 11,
        "epsilon_start": 0.9,
        "epsilon_end": 0.2,
        "epsilon_steps": 13,
    }
    assert build(**given).settings == AsynchronousSettings(**given)


def test_the_learning_rate_falls_over_the_run_where_it_is_to(build):
    assert build(anneal=True, total_steps=90).settings.anneal_steps == 90
    assert math.isinf(build(anneal=False, total_steps=90).settings.anneal_steps)


def test_no_clip_is_none_or_0(build):
    assert build(gradient_clip=None).settings.gradient_clip == 0
    assert build(gradient_clip=0).settings.gradient_clip == 0


@pytest.mark.parametrize(
    ("given", "config"),
    [
        ({"method": "one_step_q", "double": True}, {"double": True, "loss": "huber"}),
        ({"method": "one_step_sarsa", "loss": "mse"}, {"loss": "mse"}),
        ({"method": "n_step_q", "dueling": True}, {"double": False, "loss": "huber"}),
        (
            {"method": "a3c", "entropy_beta": 0.5, "value_loss_coefficient": 0.25, "lstm": True},
            {"entropy_beta": 0.5, "value_loss_coefficient": 0.25},
        ),
    ],
)
def test_a_rule_takes_what_is_its_own(build, given, config):
    method = build(**given).method
    assert method.name == given["method"]
    assert method.get_config() == config


def test_the_run_is_told_the_rest(build):
    others = build(method="a3c", greedy=True, total_steps=90, keep=3, checkpoint_period_minutes=None).others
    told = {name: others[name] for name in others if name not in ("make_evaluation", "arguments", "protocol", "device")}
    assert told == {
        "greedy": True,
        "steps_per_epoch": 60,
        "total_steps": 90,
        "log_weights": False,
        "keep": 3,
        "keep_weights": "none",
        "checkpoint_period_minutes": None,
    }
    assert others["arguments"] == {**toy_async_rundef.run.__kwdefaults__} | {
        "method": "a3c",
        "greedy": True,
        "total_steps": 90,
        "keep": 3,
        "checkpoint_period_minutes": None,
    }
    assert others["device"].startswith("cpu (workers: 1, a process and a thread each; cores: ")


def test_a_rundef_may_leave_keys_out(monkeypatch):
    monkeypatch.setattr(assembling, "AsynchronousRun", Built)
    from dqn_lab.models.networks import mlp

    assembly = AsynchronousAssembly({"protocol": "classic-control", "method": "a3c"})
    sequence = assembly.environment_sequence(Catch)
    run = assembly.run(sequence, mlp(sequence.state_shape, sequence.num_actions, hidden=(8,), actor_critic=True))
    assert run.settings == AsynchronousSettings()
    assert run.method.get_config() == {"entropy_beta": 0.01, "value_loss_coefficient": 0.5}
    assert run.others["steps_per_epoch"] == 250_000


# Sequences.


def test_a_sequence_has_one_lane_the_rules_and_no_replay_to_speak_of(build):
    make = build(gamma=0.9).make_sequence
    sequence = make(epsilon=lambda steps: 0.25, seed=3)
    assert (sequence.num_envs, sequence.epsilon, sequence.seed, sequence.gamma) == (1, 0.25, 3, 0.9)
    assert sequence.replay_bytes < 10_000
    assert str(sequence.protocol) == "classic-control"
    sequence.simulate(50)
    assert sequence.steps == 50


def test_an_atari_sequence_has_the_protocol_and_its_deviations():
    make = AsynchronousAssembly(ATARI | {"frame_skip": (3, 5)}).atari_sequence()
    assert (make.state_shape, make.num_actions) == ((84, 84, 4), 6)
    sequence = make(epsilon=0.0, seed=0)
    assert sequence.protocol.frame_skip == (3, 5)
    assert (sequence.num_envs, sequence.feeding) == (1, "alternate")


def test_nothing_is_said_of_a_replay(build, caplog):
    logger = logging.getLogger("dqn_lab")
    with caplog.at_level(logging.INFO, logger="dqn_lab"):
        build().make_sequence(epsilon=0.0, seed=0)
        logger.info("Replay memory: of another run")
    assert [record.getMessage() for record in caplog.records] == ["Replay memory: of another run"]


def test_makers_of_sequences_and_evaluations_travel_with_what_they_make(build):
    run = build(evaluation_episodes=3, seed=4)
    make_sequence, make_evaluation = pickle.loads(cloudpickle.dumps((run.make_sequence, run.others["make_evaluation"])))
    assert make_sequence.state_shape == (10, 5, 1)
    evaluation = make_evaluation(make_sequence(epsilon=0.0, seed=0))
    assert evaluation.limits == {"num_episodes": 3, "num_max_iter": math.inf}
    assert evaluation.seed == 4


def test_a_rundefs_own_classes_travel_where_it_cannot_be_imported():
    environment = load_rundef(TOY).run.__globals__["Misbehaving"]
    code = (
        "import pickle, sys; make = pickle.load(sys.stdin.buffer);"
        "print(make(None, None).reset(seed=0)[0].shape, '_rundef_toy_async_rundef' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], input=cloudpickle.dumps(environment), capture_output=True)
    assert done.stdout == b"(10, 5, 1) False\n", done.stderr.decode()


def test_a_maker_says_what_it_makes(build):
    assert "SequenceMaker(EnvironmentSequence, <function run.<locals>.make_behind_a_lock at" in repr(
        build(locked=True).make_sequence
    )


# Rules of environment and evaluation.


@pytest.mark.parametrize(
    ("given", "deviations"),
    [
        ({}, {"final_epsilon": None}),  # drawn for each worker
        ({"epsilon_end": 0.1}, {}),
        ({"epsilon_end": 0.2, "evaluation_epsilon": 0.0}, {"final_epsilon": 0.2, "evaluation_epsilon": 0.0}),
        ({"method": "a3c"}, {"final_epsilon": None, "evaluation_epsilon": 0.0}),
        ({"method": "a3c", "epsilon_end": 0.2, "evaluation_epsilon": 0.05}, {"final_epsilon": None}),
    ],
)
def test_a_protocol_says_how_the_methods_explore(given, deviations):
    assert AsynchronousAssembly(ATARI | given).protocol.deviations == deviations


def test_an_evaluation_has_the_protocols_epsilon_and_may_be_left_out(build):
    given = {"evaluation_epsilon": 0.25, "evaluation_episodes": 3, "evaluation_max_steps": 50}
    arguments = build(**given).others["make_evaluation"].keywords
    assert (arguments["epsilon"], arguments["num_episodes"], arguments["num_max_iter"]) == (0.25, 3, 50)
    assert build(evaluation_period_epochs=0).others["make_evaluation"] is None


# What doesn't go together.

REFUSED = [
    ({"method": "a3c", "double": True}, "`double` goes with one_step_q and n_step_q only. Received: double=True, meth"),
    ({"method": "one_step_sarsa", "double": True}, "Received: double=True, method='one_step_sarsa'"),
    (
        {"method": "a3c", "dueling": True},
        "`dueling` goes with one_step_q, one_step_sarsa and n_step_q only. Received: dueling=True, method='a3c'",
    ),
    ({"method": "n_step_q", "lstm": True}, "`lstm` goes with a3c only. Received: lstm=True, method='n_step_q'"),
    ({"method": "n_step_q", "greedy": True}, "`greedy` goes with a3c only. Received: greedy=True, method='n_step_q'"),
    ({"method": "one_step_sarsa", "lstm": True}, "Received: lstm=True, method='one_step_sarsa'"),
    (
        {"method": "nstep"},
        "`method` must be one of one_step_q, .*; the closest is 'n_step_q'. Received: method='nstep'",
    ),
    ({"method": "A3C"}, "the closest is 'a3c'. Received: method='A3C'"),
    ({"num_workers": 0}, "`num_workers` must be at least 1. Received: num_workers=0"),
    ({"t_max": 0}, "`t_max` must be at least 1. Received: t_max=0"),
    (
        {"anneal": True, "total_steps": math.inf},
        "`anneal` needs a finite `total_steps`, .* Received: anneal=True, total_steps=inf",
    ),
]


@pytest.mark.parametrize(("given", "rule"), REFUSED)
def test_what_does_not_go_together_is_refused(given, rule):
    with pytest.raises(SettingError, match=rule):
        toy_async_rundef.run(**given)


@pytest.mark.parametrize(
    "given", [{"method": "one_step_sarsa", "dueling": True}, {"method": "n_step_q", "double": True}]
)
def test_what_goes_together_is_built(build, given):
    assert build(**given).method.name == given["method"]


def refused(capsys, *words, code=2):
    """The one line that the command is refused with, with an exit code."""
    assert cli.train([str(word) for word in words]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("dqn-train: error: ")
    return line


@pytest.mark.parametrize(("given", "rule"), REFUSED)
def test_what_does_not_go_together_is_one_line_of_the_command(capsys, tmp_path, given, rule):
    words = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
    assert re.search(rule, refused(capsys, TOY, "--run-dir", tmp_path / "run", *words))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("rundef", "setting", "rule"),
    [
        (
            "catch_async",
            "replay_capacity_steps=5",
            "an asynchronous run has no replay. Received: replay_capacity_steps",
        ),
        ("catch_async", "batch_size=8", "an asynchronous run has no replay; t_max comes closest. Received: batch_size"),
        ("catch_async", "feeding=auto", "an asynchronous run has no replay. Received: feeding"),
        ("catch_async", "num_envs=4", "no replay; num_workers comes closest. Received: num_envs"),
        ("catch_async", "device=gpu", "an asynchronous run computes in float32 on CPU cores. Received: device"),
        ("catch_async", "num_worker=4", "no such key; the closest is 'num_workers'. Received: num_worker"),
        ("catch", "num_workers=4", "it is one of asynchronous rundefs, such as catch_async. Received: num_workers"),
        ("catch", "method=a3c", "it is one of asynchronous rundefs, such as catch_async. Received: method"),
        ("catch", "num_env=4", "no such key; the closest is 'num_envs'. Received: num_env"),
    ],
)
def test_a_key_of_the_other_kind_of_run_is_told_from_a_typing_error(capsys, rundef, setting, rule):
    assert rule in refused(capsys, rundef, "--set", setting)


def test_a_rundef_cannot_have_replay_keys_of_its_own():
    with pytest.raises(SettingError, match="`batch_size` is no key of an asynchronous rundef: an .* Received: .*=8"):
        AsynchronousAssembly(ATARI | {"batch_size": 8})


def test_the_keys_of_both_kinds_are_apart():
    assert set(REPLAY_KEYS) <= set(COMMON_KEYS)
    assert not set(ASYNCHRONOUS_KEYS) & set(COMMON_KEYS)
    assert {key for key in REPLAY_KEYS.values() if key} <= {"total_steps", *ASYNCHRONOUS_KEYS}
    toy = toy_async_rundef.run.__kwdefaults__
    assert set(ASYNCHRONOUS_KEYS) <= set(toy)
    assert not any(why_not_a_key(name, toy) for name in toy)


def test_a_maker_that_no_other_process_can_be_given_is_refused_by_its_name(capsys, tmp_path):
    rule = r"must be picklable. Received: make_environment=.*make_behind_a_lock at .*: cannot pickle '_thread.lock'"
    with pytest.raises(TypeError, match=rule):
        toy_async_rundef.run(locked=True)
    line = refused(capsys, TOY, "--run-dir", tmp_path / "run", "--set", "locked=true", code=1)
    assert re.search(rule, line)
    assert not (tmp_path / "run").exists()


def test_a_total_of_updates_is_refused(capsys, tmp_path):
    line = refused(capsys, TOY, "--run-dir", tmp_path / "run", "--updates", 5, code=1)
    assert "an asynchronous run ends at --steps or --minutes. Received: updates=5" in line
    assert not (tmp_path / "run").exists()


def test_what_is_checked_or_only_plays_is_the_same_run():
    arguments = dict(toy_async_rundef.run.__kwdefaults__)
    assert check_arguments(arguments) == arguments
    assert playing_arguments(arguments) == arguments | {"initial_weights": None, "evaluation_period_epochs": 0}


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"epsilon_start": 1.5}, "`epsilon_start` must lie within 0 and 1. Received: epsilon_start=1.5"),
        ({"epsilon_end": -0.5}, "`epsilon_end` must lie within 0 and 1. Received: epsilon_end=-0.5"),
        ({"learning_rate": 0.0}, "`learning_rate` must be above 0"),
        ({"gradient_clip": -1.0}, "`gradient_clip` must be at least 0"),
        ({"rmsprop": "adam"}, "`rmsprop` must be one of shared, per_worker, momentum_sgd. Received: rmsprop='adam'"),
        ({"target_period_steps": 0}, "`target_period_steps` must be at least 1. Received: target_period_steps=0"),
        ({"steps_per_epoch": 0}, "`steps_per_epoch` must be at least 1. Received: steps_per_epoch=0"),
        ({"anneal": True, "total_steps": 0}, "`total_steps` must be above 0. Received: total_steps=0"),
        ({"entropy_beta": -1.0, "method": "a3c"}, "`entropy_beta` must be 0 or above"),
        ({"loss": "abs"}, "`loss` must be one of huber, mse. Received: loss='abs'"),
        ({"evaluation_period_epochs": -1}, "Received: evaluation_period_epochs=-1"),
        ({"keep": 0}, "`keep` must be at least 1. Received: keep=0"),
        ({"initial_weights": "runs/none"}, "`initial_weights` can't be read: .* Received: initial_weights='runs/none'"),
        ({"protocol": "nature-2015"}, "`protocol` must be classic-control where no Atari game is played"),
    ],
)
def test_a_wrong_argument_is_refused_by_the_name_the_user_gave(build, given, rule):
    with pytest.raises(ValueError, match=rule):
        build(**given)
