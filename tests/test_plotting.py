"""dqn-plot: the numbers of its lines and bands, its legend and files, and one line for what is wrong."""

import hashlib
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import cv2
import numpy as np
import pytest
from written_runs import write_run

from dqn_lab import cli
from dqn_lab.plots.curve_figure import short_number
from dqn_lab.plots.plotting import plot_runs
from dqn_lab.protocols import PROTOCOLS
from dqn_lab.reports.published_curves import published_curve
from dqn_lab.rundef import load_rundef, rundef_names

SCORE, TRAINING = "eval_return_mean", "train_return_mean"
ROWS = {"steps": [10, 20, 30], "frames": [40, 80, 120], "minutes": [1, 2, 3], SCORE: [0, 1, 2], TRAINING: [5, 6, 7]}


def write_seeds(folder, count=3, **given):
    """Runs of one configuration; seed s scores s more at each point."""
    return [
        write_run(folder / f"seed{seed}", ROWS | {SCORE: [seed, seed + 1, seed + 2]}, seed=seed, **given)
        for seed in range(count)
    ]


def write_pong(folder, name="pong", steps=(250_000, 500_000, 750_000), protocol="dopamine", **given):
    rows = {
        "steps": steps,
        "frames": [4 * n for n in steps],
        "minutes": steps,
        SCORE: [0] * 3,
        TRAINING: [-20, -19, -18],
    }
    return write_run(folder / name, rows, rundef="atari_dqn", protocol=protocol, game="pong", **given)


def lines(axes, *, named=True):
    """Label -> [K, 2] points, of lines in the legend or of those that aren't."""
    found = {line.get_label(): line.get_xydata() for line in axes.lines}
    return {label: points for label, points in found.items() if label.startswith("_") != named}


def legend(figure):
    (found,) = figure.legends
    return [text.get_text() for text in found.get_texts()]


def run(capsys, *words):
    """Exit code and streams of the command."""
    try:
        code = cli.plot([str(word) for word in words])
    except SystemExit as end:
        code = end.code
    printed = capsys.readouterr()
    return code, printed.out, printed.err


# What is drawn.


def test_seeds_are_a_mean_a_band_and_thin_lines(tmp_path):
    figure = plot_runs(write_seeds(tmp_path))
    (axes,) = figure.axes
    assert legend(figure) == ["catch, 3 seeds, classic-control"]
    (mean,) = lines(axes).values()
    np.testing.assert_allclose(mean, [[10, 1], [20, 2], [30, 3]])
    thin = list(lines(axes, named=False).values())
    np.testing.assert_allclose([points[:, 1] for points in thin], [[0, 1, 2], [1, 2, 3], [2, 3, 4]])
    (band,) = axes.collections
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices.tolist()}
    assert corners == {(10, 0), (20, 1), (30, 2), (10, 2), (20, 3), (30, 4)}
    assert axes.get_title() == "Catch"
    assert (axes.get_xlabel(), axes.get_ylabel().split("\n")[0]) == (
        "steps (decisions of the agent)",
        "evaluation: mean return",
    )
    assert "band: lowest to highest seed" in figure.legends[0].get_title().get_text()


def test_one_seed_is_one_line_without_a_band(tmp_path):
    figure = plot_runs(write_seeds(tmp_path, 1), x="minutes", y=TRAINING)
    (axes,) = figure.axes
    assert legend(figure) == ["catch, seed 0, classic-control"]
    assert (len(axes.lines), len(axes.collections)) == (1, 0)
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[1, 5], [2, 6], [3, 7]])
    assert (axes.get_xlabel(), figure.legends[0].get_title().get_text()) == ("minutes", "")


def test_a_run_that_is_given_twice_counts_once(tmp_path):
    (directory,) = write_seeds(tmp_path, 1)
    assert legend(plot_runs([directory, directory / ".." / directory.name])) == ["catch, seed 0, classic-control"]
    again = write_run(tmp_path / "again", ROWS, seed=0)
    assert legend(plot_runs([directory, again])) == ["catch, 2 runs, classic-control"]


def test_configurations_differ_in_colour_and_dashes_and_the_legend_says_by_what(tmp_path):
    a3c = write_seeds(tmp_path / "a3c", 2, rundef="cartpole_async", method="a3c")
    sarsa = write_seeds(tmp_path / "sarsa", 1, rundef="cartpole_async", method="one_step_sarsa")
    replay = write_seeds(tmp_path / "replay", 1, rundef="cartpole_v1")
    figure = plot_runs([*a3c, *sarsa, *replay])
    (axes,) = figure.axes
    assert axes.get_title() == "CartPole-v1"
    assert legend(figure) == [
        "cartpole_async method=a3c, 2 seeds, classic-control",
        "cartpole_async method=one_step_sarsa, seed 0, classic-control",
        "cartpole_v1, seed 0, classic-control",
    ]
    named = [line for line in axes.lines if not line.get_label().startswith("_")]
    assert len({line.get_color() for line in named}) == len({line.get_linestyle() for line in named}) == 3


def test_each_game_has_a_panel_and_a_configuration_the_same_look_in_all(tmp_path):
    rules = {"rundef": "atari_dqn", "protocol": "nature-2015"}
    pong = write_seeds(tmp_path / "pong", 2, game="ALE/Pong-v5", **rules)
    breakout = write_seeds(tmp_path / "breakout", 1, game="breakout", **rules)
    figure = plot_runs([*pong, *breakout, *write_seeds(tmp_path / "catch", 1)], title="three $ games")
    assert [axes.get_title() for axes in figure.axes] == ["breakout", "Catch", "pong"]
    assert legend(figure) == [
        "atari_dqn, breakout: seed 0, pong: 2 seeds, nature-2015",
        "catch, seed 0, classic-control",
    ]
    colours = [axes.lines[0].get_color() for axes in figure.axes]
    assert colours[0] == colours[2] != colours[1]
    assert figure.get_suptitle() == "three $ games"


def test_rules_that_differ_are_marked(tmp_path):
    sticky = PROTOCOLS["nature-2015"].override(repeat_action_probability=0.25)
    figure = plot_runs([write_pong(tmp_path, "a", protocol="nature-2015"), write_pong(tmp_path, "b", protocol=sticky)])
    assert legend(figure) == ["atari_dqn, 1 run, nature-2015", "atari_dqn, 1 run, nature-2015 (sticky 0.25)"]


def test_seeds_that_share_no_range_are_thin_lines_and_said(tmp_path):
    rows = {"steps": [40, 50], SCORE: [1, 1]}
    runs = [write_run(tmp_path / "0", ROWS, seed=0), write_run(tmp_path / "1", rows, seed=1)]
    said = []
    (axes,) = plot_runs(runs, say=said.append).axes
    assert said == ["catch: its 2 seeds share no range of steps, so they have no mean"]
    assert [len(points) for points in lines(axes, named=False).values()] == [3, 2]
    assert [len(points) for points in lines(axes).values()] == [0]


def test_every_rundef_without_a_game_says_what_it_plays(tmp_path):
    for name in rundef_names():
        if "game" not in load_rundef(name).keys:
            (axes,) = plot_runs(write_seeds(tmp_path / name, 1, rundef=name)).axes
            assert axes.get_title().lower().replace("-", "_").split("_")[0] == name.split("_")[0]
            assert axes.get_title() != name


def test_a_title_is_text_whatever_is_in_it(tmp_path):
    plot_runs(write_seeds(tmp_path, 1), tmp_path / "a.png", title=r"$\frac$")
    assert (tmp_path / "a.png").exists()


# Published curves.


@pytest.mark.parametrize(("x", "scale"), [("steps", 4), ("frames", 1)])
def test_the_published_curve_stands_behind_as_far_as_the_runs_go(tmp_path, x, scale):
    figure = plot_runs([write_pong(tmp_path)], x=x, compare="dopamine")
    (axes,) = figure.axes
    run, published = lines(axes).values()
    np.testing.assert_allclose(run, np.transpose([np.array([1e6, 2e6, 3e6]) / scale, [-20, -19, -18]]))
    curve = published_curve("pong")
    np.testing.assert_allclose(published, np.transpose([np.array(curve.frames[:3]) / scale, curve.mean[:3]]))
    (band,) = axes.collections
    assert {y for _, y in band.get_paths()[0].vertices} == {*curve.low[:3], *curve.high[:3]}
    assert axes.get_ylabel().startswith("training games: mean return")
    assert [" ".join(label.split()) for label in legend(figure)] == [
        "atari_dqn, 1 run, dopamine",
        "Dopamine's DQN, mean and range of 5 runs, training games of each 1M frames, dopamine",
    ]


def test_the_next_published_point_is_shown_to_a_run_that_ends_before_it(tmp_path):
    (axes,) = plot_runs([write_pong(tmp_path, steps=(1000, 2000, 3000))], compare="dopamine").axes
    assert lines(axes).popitem()[1].tolist() == [[250_000, -20.191]]
    assert axes.get_xlim()[1] > 250_000
    (axes,) = plot_runs([write_pong(tmp_path, "longer", steps=(1000, 2000, 300_000))], compare="dopamine").axes
    assert len(lines(axes).popitem()[1]) == 2
    assert axes.get_xlim()[1] < 500_000


def test_games_without_a_published_curve_are_said(tmp_path):
    said = []
    catch = write_seeds(tmp_path / "catch", 1)
    figure = plot_runs([write_pong(tmp_path), *catch], compare="dopamine", y=SCORE, say=said.append)
    assert said == ["no curve is published of Catch"]
    assert [len(axes.lines) for axes in figure.axes] == [1, 2]
    tennis = write_seeds(tmp_path / "tennis", 1, rundef="mine", protocol="dopamine", game="tennis")
    labels = legend(plot_runs([write_pong(tmp_path, "first"), *tennis], compare="dopamine", say=said.append))
    assert [label.split(",")[0] for label in labels] == ["atari_dqn", "mine", "Dopamine's DQN"]  # the published last
    with pytest.raises(ValueError, match="No curve is published of Catch. Received: compare='dopamine'"):
        plot_runs(catch, compare="dopamine")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"x": "minutes"}, "Published curves are over steps or frames. Received: x='minutes'"),
        ({"y": "human_normalized"}, "Published curves are of raw returns. Received: y='human_normalized'"),
        ({"compare": "zoo"}, "`compare` must be one of dopamine. Received: compare='zoo'"),
        ({"x": "hours"}, "`x` must be one of steps, frames, updates, minutes. Received: x='hours'"),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path, given, error):
    with pytest.raises(ValueError, match=error):
        plot_runs([write_pong(tmp_path)], **({"compare": "dopamine"} | given))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (999, "999"), (40_000, "40k"), (2_500_000, "2.5M"), (-1500, "-1.5k"), (0.1 + 0.2, "0.3")],
)
def test_ticks_are_short(value, text):
    assert short_number(value) == text


# The command.


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_file_is_of_its_kind_and_the_same_each_time(tmp_path, capsys, suffix):
    runs = write_seeds(tmp_path / "runs")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    found = []
    for name in ("a", "b"):
        out = tmp_path / f"{name}.{suffix}"
        assert run(capsys, *runs, "--out", out) == (0, f"{out}:\n  Catch: catch, 3 seeds, classic-control\n", "")
        found.append(hashlib.sha256(out.read_bytes()).hexdigest())
    assert found[0] == found[1]
    if suffix == "png":
        assert cv2.imread(str(out)).shape[1] == 1200  # pixels: 8 inches of 150
    elif suffix == "svg":
        assert xml.etree.ElementTree.parse(out).getroot().tag.endswith("}svg")
    else:
        assert out.read_bytes().startswith(b"%PDF-") and out.read_bytes().rstrip().endswith(b"%%EOF")
        assert b"CreationDate" not in out.read_bytes()
    assert {path: path.read_bytes() for path in (tmp_path / "runs").rglob("*.*")} == {
        path: text for path, text in before.items()
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a.{suffix}", f"b.{suffix}", "runs"]


def test_the_command_loads_nothing_it_does_not_need(tmp_path):
    (directory,) = write_seeds(tmp_path, 1)
    code = (
        "import sys; from dqn_lab import cli; heavy = lambda: [m for m in ('tensorflow', 'gymnasium', 'cv2',"
        "'matplotlib.pyplot', 'matplotlib') if m in sys.modules]\ntry: cli.plot(['--help'])\nexcept SystemExit: pass\n"
        "print(heavy()); code = cli.plot(sys.argv[1:]); print(code, heavy())"
    )
    words = [sys.executable, "-c", code, directory, "--out", tmp_path / "a.png"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True)
    assert "dqn-plot runs/catch-seed* --out curves.png" in done.stdout
    assert "\n[]\n" in done.stdout
    assert done.stdout.endswith("\n0 ['matplotlib']\n")
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("code", "words", "error"),
    [
        (1, ["none", "--out", "a.png"], "A run directory has a config.json. Received: run_directory='none'"),
        (1, ["empty", "--out", "a.png"], "A run directory has a config.json. Received: run_directory='empty'"),
        (1, ["broken", "--out", "a.png"], "config.json isn't that of a run. Received: run_directory='broken'"),
        (1, ["broken", "empty", "--out", "a.png"], "config.json isn't that of a run. Received: run_directory='broken'"),
        (1, ["run", "none", "--out", "a.png"], "A run directory has a config.json. Received: run_directory='none'"),
        (1, ["begun", "--out", "a.png"], "begun has no epoch behind it yet. Received: x='steps', y='eval_return_mean'"),
        (1, ["run", "--out", "a.jpg"], "`out` must end in .png, .svg, .pdf. Received: out='a.jpg'"),
        (1, ["run", "--out", "none/a.png"], "The folder of `out` doesn't exist. Received: out='none/a.png'"),
        (1, ["run", "--out", "folder.png"], "`out` must be a file, and there is a folder. Received: out='folder.png'"),
        (1, ["run", "--out", "a.png", "--y", "los"], "did you mean 'loss'? Received: y='los'"),
        (1, ["run", "--out", "a.png", "--compare", "dopamine"], "No curve is published of Catch. Received: compare="),
        (2, ["run", "--out", "a.png", "--x", "hours"], "argument --x: invalid choice: 'hours'"),
        (2, ["run", "--out", "a.png", "--compare", "zoo"], "argument --compare: invalid choice: 'zoo'"),
        (2, ["run"], "the following arguments are required: --out"),
        (2, ["--out", "a.png"], "the following arguments are required: RUN_DIR"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(tmp_path, monkeypatch, capsys, code, words, error):
    monkeypatch.chdir(tmp_path)
    for name in ("empty", "folder.png"):
        (tmp_path / name).mkdir()
    write_seeds(tmp_path, 1)[0].rename("run")
    write_run(tmp_path / "begun", {name: [] for name in ROWS})
    (write_run(tmp_path / "broken", ROWS) / "config.json").write_text("{", encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    got, out, err = run(capsys, *words)
    assert (got, out) == (code, "")
    assert err.startswith("dqn-plot: error: ") and len(err.splitlines()) == 1
    assert error in err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_without_a_row_is_left_out_with_a_line(tmp_path, capsys):
    runs = [*write_seeds(tmp_path, 1), write_run(tmp_path / "begun", {name: [] for name in ROWS})]
    code, _, err = run(capsys, *runs, "--out", tmp_path / "a.png")
    assert (code, err) == (0, f"dqn-plot: {runs[1]} has no epoch behind it yet: it is left out\n")


def test_what_is_no_run_is_left_out_with_a_line(tmp_path, capsys):
    run_directory, folder = write_seeds(tmp_path, 1)[0], tmp_path / "initial_states"
    folder.mkdir()
    code, out, err = run(capsys, run_directory, folder, "--out", tmp_path / "a.png")
    assert (code, err) == (0, f"dqn-plot: {folder} is left out: A run directory has a config.json.\n")
    assert out.startswith(f"{tmp_path / 'a.png'}:\n  Catch: catch, seed 0")


def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path, monkeypatch, capsys):
    def fail(self, data):
        self.write_text("half", encoding="utf-8")
        raise OSError("no space left")

    (out := tmp_path / "a.png").write_text("old", encoding="utf-8")
    monkeypatch.setattr(Path, "write_bytes", fail)
    runs = write_seeds(tmp_path / "runs", 1)
    for name in ("a.png", "b.pdf", "c.svg"):
        code, printed, err = run(capsys, *runs, "--out", tmp_path / name)
        assert (code, printed, err) == (1, "", "dqn-plot: error: no space left\n")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["a.png"]
    assert out.read_text(encoding="utf-8") == "old"
