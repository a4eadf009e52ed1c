"""The rundefs that come with the package: each runs through dqn-train, and says what it does."""

import csv
import inspect
import json
import math
import os
import re
from contextlib import nullcontext

import pytest
from inline_workers import inline

from dqn_lab import cli
from dqn_lab.rundef import load_rundef, rundef_names
from dqn_lab.rundef_keys import ASYNCHRONOUS_KEYS, COMMON_KEYS, REPLAY_KEYS

REPLAY = (
    "acrobot_v1",
    "atari_dqn",
    "breakout_fast",
    "breakout_v0",
    "cartpole_v0",
    "cartpole_v1",
    "catch",
    "dopamine_dqn",
    "mountaincar_v0",
    "pong_fast",
)
ASYNCHRONOUS = ("atari_async", "cartpole_async", "catch_async")
NAMES = tuple(sorted(REPLAY + ASYNCHRONOUS))
ATARI = ("atari_async", "atari_dqn", "breakout_fast", "breakout_v0", "dopamine_dqn", "pong_fast")
TOY_EVALUATION = {
    "evaluation_episodes": 2,
    "evaluation_max_steps": 60,
    "initial_states": 4,
    "initial_states_dir": "none",
}
TOY = TOY_EVALUATION | {
    "replay_capacity_steps": 800,
    "replay_min_steps": 80,
    "updates_per_epoch": 4,
    "batch_size": 8,
    "total_updates": 5,
    "device": "cpu",
}
TOY_ASYNCHRONOUS = TOY_EVALUATION | {"num_workers": 1, "steps_per_epoch": 40, "total_steps": 50}
METHODS = [("one_step_q", {"double": True, "dueling": True}), ("one_step_sarsa", {}), ("n_step_q", {}), ("a3c", {})]
# What an Atari game has and classic control hasn't.
ATARI_ONLY = {"game", "frame_skip", "reward_transform", "replay_compression"}


def train(name, toy, folder):
    """Exit code, rows and log of a run at toy size, once its config and figures have been looked at."""
    settings = [word for key, value in toy.items() for word in ("--set", f"{key}={value}")]
    code = cli.train([name, "--run-dir", str(folder), *settings])
    log = (folder / "log.txt").read_text()
    assert code == 0, log
    with open(folder / "progress.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert math.isfinite(float(rows[0]["loss"]))
    assert math.isfinite(float(rows[0]["initial_state_value"]))
    assert re.search(r"^evaluation at .*: (return|no episode finished)", log, re.MULTILINE)
    assert "Warning" not in log
    config = json.loads((folder / "config.json").read_text())
    assert config["rundef"] == name
    return rows, log, config["arguments"]


@pytest.mark.parametrize("name", REPLAY)
def test_a_rundef_trains_evaluates_and_saves_through_the_command(name, tmp_path):
    rows, _, arguments = train(name, TOY, tmp_path / "run")
    assert [row["updates"] for row in rows] == ["4"]
    lanes = arguments["num_envs"]
    rounds = math.ceil(5 * arguments["train_period_steps"] / lanes)  # all lanes step at once
    assert os.listdir(tmp_path / "run" / "checkpoints") == [str(80 + rounds * lanes)]
    assert arguments["batch_size"] == 8


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_an_asynchronous_rundef_trains_evaluates_and_saves_through_the_command(name, processes, tmp_path):
    with nullcontext() if processes else inline():
        rows, log, arguments = train(name, TOY_ASYNCHRONOUS, tmp_path / "run")
    assert 40 <= int(rows[0]["steps"]) < 40 + (arguments["t_max"] or 5)
    assert max(map(int, os.listdir(tmp_path / "run" / "checkpoints"))) >= 50
    assert "Replay memory" not in log
    assert arguments["num_workers"] == 1


@pytest.mark.parametrize("name", ASYNCHRONOUS)
@pytest.mark.parametrize(("method", "given"), [*METHODS, ("a3c", {"lstm": True})])
def test_an_asynchronous_rundef_builds_the_network_of_each_method(name, method, given):
    rundef = load_rundef(name)
    run = rundef.build(rundef.resolve({"method": method, "evaluation_period_epochs": 0} | given))
    names = {layer.name for layer in run.agent.network.layers}
    assert len(run.agent.network.outputs) == (1 if method != "a3c" else 4 if given else 2)
    assert ("lstm" in names) is ("lstm" in given)
    assert run.arguments["method"] == method


def test_these_are_the_rundefs_there_are():
    assert rundef_names() == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_rundef_has_the_common_keys_and_describes_the_others(name):
    rundef = load_rundef(name)
    wanted = set(COMMON_KEYS) - (set() if name in ATARI else ATARI_ONLY)
    if name in ASYNCHRONOUS:
        wanted = (wanted | set(ASYNCHRONOUS_KEYS)) - set(REPLAY_KEYS) - {"device", "precision", "jit_compile"}
    assert wanted <= set(rundef.keys)
    described = rundef.describe().splitlines()
    for key in rundef.keys:
        at = next(i for i, line in enumerate(described) if line.startswith(f"  {key}="))
        assert described[at + 1].startswith("      ")
    assert not any(key.required for key in rundef.keys.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_rundef_saves_and_keeps_by_the_same_defaults(name):
    rundef = load_rundef(name)
    values = rundef.resolve({})
    assert values.get("checkpoint_period_steps") == (None if name in ASYNCHRONOUS else 500_000)
    assert values["checkpoint_period_minutes"] == 10.0
    assert (values["keep"], values["keep_weights"], values["initial_weights"]) == (2, "none", None)
    settings = ["checkpoint_period_minutes=none", "initial_weights=runs/catch-seed0"]
    settings += [] if name in ASYNCHRONOUS else ["checkpoint_period_steps=none"]
    assert list(rundef.parse(settings).values()) == [None, "runs/catch-seed0", None][: len(settings)]
    with pytest.raises(ValueError, match="keep_weights must be 'none' or 'all'. Received: keep_weights=best"):
        rundef.parse(["keep_weights=best"])


@pytest.mark.parametrize("name", NAMES)
def test_a_rundef_cites_its_paper_and_numbers_its_deviations(name):
    text = load_rundef(name).text
    assert f"\nPaper: Mnih et al. ({2016 if name in ASYNCHRONOUS else 2015})" in text
    numbers = re.findall(r"^(\d+)\. ", text, re.MULTILINE)
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
    assert len(numbers) >= 2
    assert "\nExpected" in text


def test_breakout_has_the_original_dqn_parameters():
    values = load_rundef("breakout_v0").resolve({})
    assert values["double"] is True
    assert (values["optimizer"], values["learning_rate"]) == ("rmsprop_centered", 0.00025)
    assert (values["loss"], values["batch_size"], values["gamma"]) == ("huber", 32, 0.99)
    assert (values["replay_capacity_steps"], values["replay_min_steps"]) == (1_000_000, 50_000)
    assert (values["train_period_steps"], values["target_period_updates"]) == (4, 10_000)
    assert (values["epsilon_steps"], values["epsilon_begin_steps"]) == (250_000, 0)
    assert (values["updates_per_epoch"], values["total_updates"]) == (50_000, 250 * 50_000)
    assert values["total_updates"] * 4 * 4 == 200_000_000  # steps per update, frames per step
    assert values["evaluation_episodes"] == math.inf


@pytest.mark.case("B022")
def test_atari_dqn_follows_deepminds_code():
    values = load_rundef("atari_dqn").resolve({})
    assert values["double"] is False
    assert values["target_period_updates"] * values["train_period_steps"] == 10_000
    assert (values["epsilon_steps"], values["epsilon_begin_steps"]) == (1_000_000, 50_000)
    assert values["updates_per_epoch"] * values["train_period_steps"] == 250_000
    assert values["evaluation_max_steps"] == 125_000


def test_dopamine_dqn_has_the_settings_behind_the_published_curves():
    values = load_rundef("dopamine_dqn").resolve({})
    assert (values["protocol"], values["num_envs"], values["double"]) == ("dopamine", 1, False)
    assert (values["optimizer"], values["learning_rate"], values["optimizer_epsilon"]) == ("adam", 6.25e-5, 1.5e-4)
    assert (values["loss"], values["batch_size"], values["n_step"], values["gamma"]) == ("mse", 32, 1, 0.99)
    assert (values["replay_capacity_steps"], values["replay_min_steps"]) == (1_000_000, 20_000)
    assert (values["train_period_steps"], values["target_period_updates"]) == (4, 2_000)
    assert (values["epsilon_begin_steps"], values["epsilon_steps"], values["epsilon_end"]) == (20_000, 250_000, None)
    steps_per_epoch = values["updates_per_epoch"] * values["train_period_steps"]
    assert 250_000 % steps_per_epoch == values["replay_min_steps"] % steps_per_epoch == 0  # for iteration_returns
    assert values["evaluation_period_epochs"] * steps_per_epoch == 250_000


def test_atari_async_has_the_papers_settings():
    values = load_rundef("atari_async").resolve({})
    assert (values["game"], values["protocol"]) == ("pong", "nature-2015")
    assert (values["method"], values["t_max"]) == ("a3c", None)  # 5, the paper's
    assert (values["learning_rate"], values["anneal"], values["gradient_clip"]) == (7e-4, True, 40.0)
    assert (values["rmsprop"], values["rmsprop_epsilon"], values["gamma"]) == ("shared", 0.1, 0.99)
    assert (values["entropy_beta"], values["value_loss_coefficient"]) == (0.01, 0.5)
    assert values["target_period_steps"] * 4 == 40_000  # frames
    assert values["epsilon_steps"] * 4 == 4_000_000  # frames
    assert (values["epsilon_start"], values["epsilon_end"]) == (1.0, None)
    assert (values["steps_per_epoch"], values["total_steps"]) == (250_000, 80_000_000)


@pytest.mark.parametrize("name", NAMES)
def test_a_rundef_can_be_called_as_a_function(name):
    parameters = inspect.signature(load_rundef(name).run).parameters.values()
    assert {one.kind for one in parameters} == {inspect.Parameter.KEYWORD_ONLY}
