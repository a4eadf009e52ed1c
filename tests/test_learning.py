"""Rundefs learn what they promise, on every seed. Minutes long: `bash scripts/test.sh -m slow`."""

import csv

import pytest

from dqn_lab import cli

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("rundef", "threshold"), [("catch", 0.95), ("cartpole_v0", 195.0)])
def test_a_rundef_ends_above_its_threshold(tmp_path, rundef, threshold, seed):
    words = [rundef, "--run-dir", tmp_path / "run", "--set", f"seed={seed}", "--set", "initial_states_dir=none"]
    assert cli.train(list(map(str, words))) == 0
    with open(tmp_path / "run" / "progress.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1]["eval_return_mean"]) >= threshold
    assert float(rows[-1]["eval_episodes"]) == 100
