"""What a run's files tell of it: config.json and progress.csv."""

import json
import math

import numpy as np
import pytest

from dqn_lab.protocols import PROTOCOLS, protocol_from_config
from dqn_lab.run_record import read_progress, read_run, read_runs

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


def test_a_last_row_that_was_cut_in_its_last_number_is_passed_over(tmp_path):
    whole = "steps,loss\r\n100,0.25\r\n200,0.125\r\n"
    for cut, losses in (("", [0.25, 0.125]), ("\r\n", [0.25]), ("25\r\n", [0.25]), ("5\r\n200,0.125\r\n", [])):
        (tmp_path / "progress.csv").write_bytes(whole.removesuffix(cut).encode())
        assert read_progress(tmp_path / "progress.csv")["loss"].tolist() == losses


def test_a_file_that_is_no_table_has_no_numbers(tmp_path):
    (tmp_path / "progress.csv").write_text("a" * 200_000 + "\n", encoding="utf-8")
    assert read_progress(tmp_path / "progress.csv") == {}
    (tmp_path / "progress.csv").write_text("steps\n5\n" + "a" * 200_000 + "\n", encoding="utf-8")
    assert read_progress(tmp_path / "progress.csv")["steps"].tolist() == [5]


def test_a_truth_value_is_no_seed(tmp_path):
    assert read_run(write_run(tmp_path / "run", arguments={"seed": True})).seed is None


def test_of_several_places_those_that_are_no_runs_are_left_out_with_a_line(tmp_path):
    run = write_run(tmp_path / "run")
    for name, text in {"web": '{"port": 80}', "torn": '{"argu'}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(text, encoding="utf-8")
    (tmp_path / "initial_states").mkdir()
    (tmp_path / "notes.txt").write_text("", encoding="utf-8")
    (tmp_path / "again").symlink_to(run, target_is_directory=True)
    said = []
    places = [tmp_path / name for name in ("initial_states", "notes.txt", "run", "torn", "web", "again")]
    assert [one.directory.name for one in read_runs(places, said.append)] == ["again"]
    assert said == [
        f"{tmp_path / 'initial_states'} is left out: A run directory has a config.json.",
        f"{tmp_path / 'notes.txt'} is left out: A run directory has a config.json.",
        f"{tmp_path / 'torn'} is left out: config.json isn't that of a run.",
        f"{tmp_path / 'web'} is left out: config.json isn't that of a run.",
    ]


def test_where_none_is_a_run_or_one_is_nowhere_that_is_told(tmp_path):
    run, said = write_run(tmp_path / "run"), []
    (tmp_path / "empty").mkdir()
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(ValueError, match="A run directory has a config.json. Received: run_directory=.*empty"):
        read_runs([tmp_path / "empty"], said.append)
    with pytest.raises(ValueError, match="A run directory has a config.json. Received: run_directory=.*rum"):
        read_runs([run, tmp_path / "empty", tmp_path / "rum"], said.append)
    with pytest.raises(OSError, match="circle"):
        read_runs([run, tmp_path / "circle"], said.append)
    assert said == []


BAD = [
    '{"arguments": {}, "totals": "all"}',
    '{"arguments": {}, "totals": {"steps": "many"}}',
    '{"arguments": {}, "totals": {"steps": null}}',
    '{"arguments": {}, "rundef": ["catch"]}',
]


@pytest.mark.parametrize("text", ["[]", "{}", "no json", '{"arguments": 1}', "[" * 100_000, *BAD])
def test_another_config_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="isn't that of a run. Received: run_directory="):
        read_run(tmp_path)


def test_another_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "deep" / "config.json").mkdir(parents=True)
    for place in (tmp_path, tmp_path / "none", tmp_path / "file", tmp_path / "deep"):
        with pytest.raises(ValueError, match="A run directory has a config.json. Received: run_directory="):
            read_run(place)


@pytest.mark.parametrize("config", [None, {}, {"name": "unknown", "deviations": {}}, {"name": "dopamine"}])
def test_what_is_no_protocol_is_none(config):
    assert protocol_from_config(config) is None
