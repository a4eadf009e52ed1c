"""scripts/compare_with_published.py: runs beside published curves, in the same statistic."""

import importlib.util
from pathlib import Path

import pytest
from written_runs import write_run

from dqn_lab.checkpoint import write_checkpoint

SCRIPT = Path(__file__).parents[1] / "scripts" / "compare_with_published.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("compare_with_published", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_pong(directory, means, seed, *, game="pong", protocol="dopamine", checkpoint=True):
    """A run with 100 games in each million frames and an epoch of half a million."""
    epochs = 2 * len(means)
    rows = {
        "steps": [125_000 * (one + 1) for one in range(epochs)],
        "frames": [500_000 * (one + 1) for one in range(epochs)],
        "episodes": [50 * (one + 1) for one in range(epochs)],
        "minutes": [10.0 * (one + 1) for one in range(epochs)],
        "train_return_mean": [mean for mean in means for _ in range(2)],
    }
    run = write_run(directory, rows, rundef="dopamine_dqn", protocol=protocol, seed=seed, game=game)
    if checkpoint:
        counters = {"steps": rows["steps"][-1], "train_return_sum": 100.0 * sum(means)}
        write_checkpoint(run / "checkpoints" / str(counters["steps"]), lambda part: None, counters)
    return str(run)


def test_a_row_for_each_million_frames_and_where_it_stands(script, tmp_path, capsys):
    first = write_pong(tmp_path / "0", [-20.2, -18.0, -13.0, -17.0, -11.0, -7.0, 0.0], 0)
    second = write_pong(tmp_path / "1", [-20.2, -19.0], 1)
    assert script.main([first, second]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "pong, dopamine"
    assert lines[1].split() == "M frames seed 0 seed 1 mean published lowest to highest".split()
    assert [line.split() for line in lines[2:5]] == [
        "1 -20.20 -20.20 -20.20 -20.19 -20.27 to -20.08 inside".split(),
        "2 -18.00 -19.00 -18.50 -18.36 -19.02 to -17.07 inside".split(),
        "3 -13.00 - -13.00 -16.12 -17.68 to -14.07 above".split(),
    ]
    assert lines[5].split()[-1] == "below"
    assert [line.split()[0] for line in lines[2:]] == ["1", "2", "3", "4", "5", "6"]  # none published for the 7th


def test_inside_or_above_everywhere_is_success(script, tmp_path, capsys):
    assert script.main([write_pong(tmp_path / "0", [-20.1, -10.0], 0)]) == 0
    assert "without" not in capsys.readouterr().out


def test_a_first_million_without_the_fills_games_is_said_so(script, tmp_path, capsys):
    script.main([write_pong(tmp_path / "0", [-20.1], 0, checkpoint=False)])
    assert capsys.readouterr().out.splitlines()[-1].endswith("the first million is without them")


@pytest.mark.parametrize("differs", [{"protocol": "nature-2015"}, {"game": "alien"}, {"protocol": "classic-control"}])
def test_what_has_no_published_curve_is_refused(script, tmp_path, capsys, differs):
    run = write_pong(tmp_path / "0", [-20.0], 0, **differs)
    with pytest.raises(SystemExit, match="2"):
        script.main([run])
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"a game with a published curve: {run}")


def test_what_is_no_run_is_one_line(script, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        script.main([str(tmp_path)])
    assert "A run directory has a config.json" in capsys.readouterr().err.splitlines()[-1]
