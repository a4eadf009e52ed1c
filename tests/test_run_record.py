"""What a run's files tell of it: config.json and progress.csv."""

import json
import math

import numpy as np
import pytest

from dqn_lab.protocols import PROTOCOLS, protocol_from_config
from dqn_lab.run_record import read_progress, read_run

ROWS = "steps,minutes,eval_return_mean\n100,0.5,\n200,1.5,-3\n300,inf,oops\n400,2"


def write_run(directory, **config):
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps({"arguments": {}} | config), encoding="utf-8")
    (directory / "progress.csv").write_text(ROWS, encoding="utf-8")
    return directory


def test_rows_are_numbers_and_what_is_none_is_nan(tmp_path):
    progress = read_run(write_run(tmp_path / "run")).progress
    np.testing.assert_equal(progress["steps"], [100, 200, 300])  # the row that isn't whole is passed over
    np.testing.assert_equal(progress["minutes"], [0.5, 1.5, math.nan])
    np.testing.assert_equal(progress["eval_return_mean"], [math.nan, -3, math.nan])


@pytest.mark.parametrize("text", ["", "steps\n1,2\n"])
def test_a_file_without_a_whole_row_has_no_numbers(tmp_path, text):
    (tmp_path / "progress.csv").write_text(text, encoding="utf-8")
    assert not any(map(len, read_progress(tmp_path / "progress.csv").values()))
    assert read_progress(tmp_path / "none.csv") == {}


def test_a_run_tells_its_rundef_game_seed_and_rules(tmp_path):
    protocol = PROTOCOLS["breakout-v0"].override(frame_skip=(3, 5), frame_cap=math.inf)
    arguments = {"seed": 7, "game": "pong"}
    config = {"rundef": "breakout_v0", "arguments": arguments, "protocol": protocol.to_config()}
    run = read_run(write_run(tmp_path / "run", **config))
    assert (run.rundef, run.game, run.seed, run.protocol) == ("breakout_v0", "pong", 7, protocol)
    assert str(run.protocol) == str(protocol)


def test_classic_control_has_no_game_and_a_run_without_rundef_no_rules(tmp_path):
    config = {"arguments": {"game": "x", "seed": None}, "protocol": PROTOCOLS["classic-control"].to_config()}
    classic = read_run(write_run(tmp_path / "classic", **config))
    bare = read_run(write_run(tmp_path / "bare", protocol=None))
    assert (classic.game, classic.seed, classic.rundef) == (None, None, "")
    assert (bare.game, bare.protocol) == (None, None)


@pytest.mark.parametrize("text", ["[]", "{}", "no json", '{"arguments": 1}'])
def test_another_config_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="isn't that of a run. Received: run_directory="):
        read_run(tmp_path)


def test_another_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    for place in (tmp_path, tmp_path / "none", tmp_path / "file"):
        with pytest.raises(ValueError, match="A run directory has a config.json. Received: run_directory="):
            read_run(place)


@pytest.mark.parametrize("config", [None, {}, {"name": "unknown", "deviations": {}}, {"name": "dopamine"}])
def test_what_is_no_protocol_is_none(config):
    assert protocol_from_config(config) is None
