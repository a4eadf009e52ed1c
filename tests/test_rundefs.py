"""The rundefs that come with the package: each runs through dqn-train, and says what it does."""

import csv
import inspect
import json
import math
import os
import re

import pytest

from dqn_lab import cli
from dqn_lab.rundef import load_rundef, rundef_names
from dqn_lab.rundef_keys import COMMON_KEYS

NAMES = (
    "acrobot_v1",
    "atari_dqn",
    "breakout_v0",
    "cartpole_v0",
    "cartpole_v1",
    "catch",
    "mountaincar_v0",
)
ATARI = ("atari_dqn", "breakout_v0")
TOY = {
    "replay_capacity_steps": 800,
    "replay_min_steps": 80,
    "updates_per_epoch": 4,
    "batch_size": 8,
    "evaluation_episodes": 2,
    "evaluation_max_steps": 60,
    "initial_states": 4,
    "initial_states_dir": "none",
    "total_updates": 5,
    "device": "cpu",
}
# What an Atari game has and classic control hasn't.
ATARI_ONLY = {"game", "frame_skip", "reward_transform", "replay_compression"}


@pytest.fixture(scope="module", params=NAMES)
def trained(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / request.param
    settings = [word for key, value in TOY.items() for word in ("--set", f"{key}={value}")]
    code = cli.train([request.param, "--run-dir", str(folder), *settings])
    return {"name": request.param, "folder": folder, "code": code}


def test_a_rundef_trains_evaluates_and_saves_through_the_command(trained):
    folder = trained["folder"]
    log = (folder / "log.txt").read_text()
    assert trained["code"] == 0, log
    with open(folder / "progress.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["updates"] for row in rows] == ["4"]
    assert math.isfinite(float(rows[0]["loss"]))
    assert math.isfinite(float(rows[0]["initial_state_value"]))
    assert re.search(r"^evaluation at .*: (return|no episode finished)", log, re.MULTILINE)
    assert "Warning" not in log
    config = json.loads((folder / "config.json").read_text())
    assert os.listdir(folder / "checkpoints") == [str(80 + 5 * config["arguments"]["train_period_steps"])]
    assert config["rundef"] == trained["name"]
    assert config["arguments"]["batch_size"] == 8


def test_these_are_the_rundefs_there_are():
    assert rundef_names() == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_rundef_has_the_common_keys_and_describes_the_others(name):
    rundef = load_rundef(name)
    wanted = set(COMMON_KEYS) - (set() if name in ATARI else ATARI_ONLY)
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
    assert (values["checkpoint_period_steps"], values["checkpoint_period_minutes"]) == (500_000, 10.0)
    assert (values["keep"], values["keep_weights"], values["initial_weights"]) == (2, "none", None)
    settings = ["checkpoint_period_steps=none", "checkpoint_period_minutes=none", "initial_weights=runs/catch-seed0"]
    assert list(rundef.parse(settings).values()) == [None, None, "runs/catch-seed0"]
    with pytest.raises(ValueError, match="keep_weights must be 'none' or 'all'. Received: keep_weights=best"):
        rundef.parse(["keep_weights=best"])


@pytest.mark.parametrize("name", NAMES)
def test_a_rundef_cites_its_paper_and_numbers_its_deviations(name):
    text = load_rundef(name).text
    assert "\nPaper: Mnih et al. (2015)" in text
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


@pytest.mark.parametrize("name", NAMES)
def test_a_rundef_can_be_called_as_a_function(name):
    parameters = inspect.signature(load_rundef(name).run).parameters.values()
    assert {one.kind for one in parameters} == {inspect.Parameter.KEYWORD_ONLY}
