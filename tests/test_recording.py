"""dqn-record: films of real runs, the games of dqn-evaluate in them, and one line for what is wrong."""

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import toy_async_rundef

from dqn_lab import cli
from dqn_lab.checkpoint import save_agent
from dqn_lab.films import recording
from dqn_lab.films.film import Film
from dqn_lab.films.recording import record_run
from dqn_lab.films.window import Window
from dqn_lab.run_evaluation import evaluate_run

ROOT = Path(__file__).resolve().parent.parent
SMALL = {
    "replay_min_steps": 40,
    "updates_per_epoch": 5,
    "evaluation_episodes": 4,
    "initial_states": 0,
    "initial_states_dir": "none",
    "keep_weights": "all",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Catch: evaluated after 60 and 80 steps, its end a checkpoint after 88."""
    folder = tmp_path_factory.mktemp("runs") / "catch"
    settings = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    assert cli.train(["catch", "--run-dir", str(folder), "--updates", "12", *settings]) == 0
    return folder


@pytest.fixture(scope="module")
def breakout(tmp_path_factory):
    """An agent on Breakout that has learnt nothing."""
    from rundefs import atari_dqn

    folder = tmp_path_factory.mktemp("atari") / "breakout"
    small = {"num_envs": 1, "replay_min_steps": 40, "replay_capacity_steps": 400, "initial_states_dir": None}
    made = atari_dqn.run(game="breakout", protocol="nature-2015", device="cpu", **small)
    save_agent(folder / "best", made.agent, {"steps": 9})
    (folder / "config.json").write_text(json.dumps(made.config("atari_dqn"), default=str))
    made.sequence.close()
    return folder


def run(capsys, *words):
    """Exit code and streams of the command."""
    capsys.readouterr()
    try:
        code = cli.record([str(word) for word in words])
    except SystemExit as end:
        code = end.code
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def refused(capsys, code, *words):
    got, out, err = run(capsys, *words)
    assert (got, out) == (code, "")
    assert err.startswith("dqn-record: error: ")
    assert err.count("\n") == 1
    return err


def pictures(path):
    """All of a film, [T, H, W, 3] in RGB."""
    capture, found = cv2.VideoCapture(str(path)), []
    while (read := capture.read())[0]:
        found.append(read[1][:, :, ::-1])
    return np.array(found)


def evaluated(folder, **arguments):
    (summary,) = evaluate_run(folder, **arguments)
    return list(zip(summary.result.returns, summary.result.lengths, strict=True))


def test_help_is_quick_and_has_examples():
    code = (
        "import sys; from dqn_lab import cli\ntry: cli.record(['--help'])\n"
        "finally: print([m for m in ('tensorflow', 'keras', 'cv2', 'pygame', 'imageio_ffmpeg') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n[]\n")
    assert done.stdout.count("\n  dqn-record runs/") == 4
    options = "--out --watch --episodes --overlay --saliency --which --protocol --epsilon --seed --zoom --verbose"
    assert all(option in done.stdout for option in options.split())


def test_a_film_has_every_picture_of_the_evaluations_games_and_the_lines_tell_them(capsys, trained, tmp_path):
    out = tmp_path / "catch.mp4"
    code, printed, err = run(capsys, trained, "--out", out, "--episodes", "3", "--epsilon", "0.5", "--seed", "4")
    assert (code, err) == (0, "")
    assert pictures(out).shape == (30, 480, 240, 3)
    games = evaluated(trained, episodes=3, epsilon=0.5, seed=4)
    best = json.loads((trained / "best" / "manifest.json").read_text())["counters"]["steps"]
    assert printed.splitlines() == [
        f"run       {trained}",
        f"film      {out}: 3.8 s, 30 pictures of 240 x 480 pixels",
        "protocol  classic-control (evaluation epsilon 0.5), epsilon 0.5, seed 4",
        f"agent     best, of {best} steps",
        *(f"game      return {score:g} in {length} steps" for score, length in games),
    ]


def test_what_is_filmed_is_the_board(trained, tmp_path):
    record_run(trained, tmp_path / "catch.gif", zoom=1)
    found = pictures(tmp_path / "catch.gif")
    assert found.shape == (10, 160, 80, 3)
    rows = [np.argwhere((picture == 255).all(axis=2))[0][0] // 16 for picture in found]
    assert rows == list(range(10))  # the ball falls a row a picture


def test_of_all_snapshots_each_plays_the_same_game_in_one_film(trained, tmp_path):
    told = record_run(trained, tmp_path / "all.gif", which="all", zoom=2)
    assert [(which, steps) for which, steps, _ in told.games if which != "best"] == [("80", 80), ("88", 88)]
    assert [steps for _, steps, _ in told.games] == [60, 80, 88]
    found = pictures(told.out)
    assert found.shape == (30, 320 + 28, 160, 3)
    captions = {picture[-28:].tobytes() for picture in found}
    assert len(captions) == 3
    assert np.array_equal(found[0][:320], found[10][:320])  # the same first board
    overlaid = record_run(trained, tmp_path / "overlaid.gif", which="all", zoom=2, overlay=True)
    assert overlaid.games == told.games
    assert overlaid.size == (160 + 304, 320)


def test_of_atari_a_film_has_every_frame_of_the_emulator(breakout, tmp_path):
    arguments = {"epsilon": 1.0, "seed": 3}
    told = record_run(breakout, tmp_path / "breakout.mp4", zoom=1, **arguments)
    ((_, _, (game,)),) = told.games
    assert [(game.game_return, game.length)] == evaluated(breakout, episodes=1, **arguments)
    assert told.seconds == told.frames / 60
    assert 4 * game.length - 3 <= told.frames <= 4 * game.length + 30  # the no-ops before the first step
    found = pictures(told.out)
    assert found.shape == (told.frames, 210, 160, 3)
    wall = found[0, 58:62, 50:110].astype(int).mean(axis=(0, 1))
    assert np.abs(wall - (200, 72, 72)).max() < 12  # Breakout's red


def test_an_asynchronous_runs_policy_is_drawn_with_its_probabilities(tmp_path):
    made = toy_async_rundef.run(method="a3c", lstm=True, evaluation_period_epochs=0)
    save_agent(tmp_path / "checkpoints" / "60", made.agent, {"steps": 60})
    config = made.config("toy_async", toy_async_rundef.__file__)
    (tmp_path / "config.json").write_text(json.dumps(config, default=str))
    said = []
    told = record_run(tmp_path, tmp_path / "a.gif", overlay=True, episodes=4, say=said.append)
    assert said == ["no evaluation of this run has been saved as its best: its newest checkpoint plays"]
    ((which, _, games),) = told.games
    assert which == "latest"
    assert [(game.game_return, game.length) for game in games] == evaluated(tmp_path, which="latest", episodes=4)
    orange = (pictures(told.out)[0][:, 240:] == (230, 159, 0)).all(axis=2).sum()
    assert orange > 100  # a bar of a probability about a third
    mapped = record_run(tmp_path, tmp_path / "b.gif", saliency="deconvnet", episodes=4, say=said.append)
    assert mapped.games == told.games
    assert (np.ptp(pictures(mapped.out)[0].astype(int), axis=2) > 60).any()


def test_saliency_changes_the_pictures_and_not_the_games(capsys, trained, tmp_path):
    plain = record_run(trained, tmp_path / "plain.gif", zoom=1, seed=1)
    code, printed, err = run(capsys, trained, "--out", tmp_path / "a.gif", "--zoom=1", "--seed=1", "--saliency=guided")
    assert (code, err) == (0, "")
    assert "saliency  guided: pixels that the value of the action taken depends on\n" in printed
    told = record_run(trained, tmp_path / "b.gif", zoom=1, seed=1, saliency="gradient", overlay=True)
    assert told.games == plain.games
    dim, guided, gradient = (pictures(tmp_path / name) for name in ("plain.gif", "a.gif", "b.gif"))
    assert guided.shape == dim.shape == (10, 160, 80, 3)
    coloured = [int((np.ptp(each.astype(int), axis=2) > 60).any(axis=1).sum()) for each in guided]
    assert min(coloured[:9]) > 0
    assert coloured[9] == 0  # the game's end: no decision
    assert not np.array_equal(guided, gradient[:, :160, :80])


def test_of_states_without_pixels_there_is_no_map(capsys, tmp_path):
    from rundefs import cartpole_v1

    folder = tmp_path / "cartpole"
    made = cartpole_v1.run(num_envs=1, initial_states_dir=None, device="cpu")
    save_agent(folder / "best", made.agent, {"steps": 9})
    (folder / "config.json").write_text(json.dumps(made.config("cartpole_v1"), default=str))
    err = refused(capsys, 1, folder, "--out", tmp_path / "a.mp4", "--saliency", "gradient")
    assert "Saliency needs states that are pictures, [H, W, C]. Received: state_shape=(4,)" in err
    assert [path.name for path in tmp_path.iterdir()] == ["cartpole"]


def test_a_game_that_its_cap_ended_is_said_so():
    told = recording._told(recording.FilmedGame(500.0, 500, True))
    assert told == "return 500 in 500 steps, ended by its cap"


@pytest.fixture
def fake_display(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr(recording, "Window", functools.partial(Window, sleep=lambda seconds: None))


def test_games_are_watched_in_a_window_with_or_without_a_film(capsys, trained, tmp_path, fake_display, monkeypatch):
    import pygame

    shown = []
    monkeypatch.setattr(pygame.display, "flip", lambda: shown.append(pygame.display.get_surface().get_size()))
    code, printed, err = run(capsys, trained, "--watch", "--zoom", "2")
    assert (code, err) == (0, "")
    assert shown == [(160, 320)] * 10
    assert "film" not in printed
    code, printed, err = run(capsys, trained, "--watch", "--out", tmp_path / "a.mp4")
    assert (code, err, len(shown)) == (0, "", 20)
    assert len(pictures(tmp_path / "a.mp4")) == 10
    assert not pygame.display.get_init()


def test_maps_are_watched_too(capsys, trained, fake_display, monkeypatch):
    import pygame

    shown = []
    monkeypatch.setattr(
        pygame.display, "flip", lambda: shown.append(pygame.surfarray.array3d(pygame.display.get_surface()))
    )
    code, printed, err = run(capsys, trained, "--watch", "--zoom", "1", "--saliency", "gradient")
    assert (code, err, len(shown)) == (0, "", 10)
    assert "saliency  gradient" in printed
    coloured = [bool((np.ptp(each.astype(int), axis=2) > 60).any()) for each in shown]
    assert coloured == [True] * 9 + [False]


def test_closing_the_window_ends_the_games_and_keeps_no_film(capsys, trained, tmp_path, fake_display, monkeypatch):
    import pygame

    monkeypatch.setattr(pygame.display, "flip", lambda: pygame.event.post(pygame.event.Event(pygame.QUIT)))
    code, printed, err = run(capsys, trained, "--watch", "--out", tmp_path / "a.mp4")
    assert (code, err) == (0, "dqn-record: the window was closed: no film is kept\n")
    assert "game " not in printed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.linux
def test_no_display_is_one_line(capsys, trained, tmp_path, monkeypatch):
    for name in ("SDL_VIDEODRIVER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert "A window needs a display; " in refused(capsys, 1, trained, "--watch", "--out", tmp_path / "a.mp4")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.posix
def test_ctrl_c_is_one_line_and_130_and_leaves_no_file(capsys, trained, tmp_path, monkeypatch):
    write = Film.write

    def interrupted(film, picture):
        write(film, picture)
        if film.frames == 5:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Film, "write", interrupted)
    assert run(capsys, trained, "--out", tmp_path / "a.mp4") == (130, "", "dqn-record: interrupted\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "words", "rule"),
    [
        (2, [], "--out FILE or --watch is needed"),
        (2, ["--out", "a.mp4", "--episodes", "0"], "argument --episodes: invalid whole number above 0 value: '0'"),
        (2, ["--out", "a.mp4", "--zoom", "x"], "argument --zoom: invalid whole number above 0 value: 'x'"),
        (2, ["--out", "a.mp4", "--epsilon", "2"], "argument --epsilon: invalid number from 0 to 1 value: '2'"),
        (2, ["--out", "a.mp4", "--saliency", "x"], "argument --saliency: invalid choice: 'x'"),
        (2, ["--out", "a.mp4", "--seed", "-1"], "argument --seed: invalid whole number from 0 on value: '-1'"),
        (1, ["--out", "a.avi"], "must end in .mp4, .gif. Received: out='a.avi'"),
        (1, ["--out", "none/a.mp4"], "The folder of `out` doesn't exist. Received: out='none/a.mp4'"),
        (1, ["--out", "."], "Received: out='.'"),
        (1, ["--out", "a.mp4", "--protocol", "natur-2015"], "did you mean 'nature-2015'?"),
        (1, ["--out", "a.mp4", "--protocol", "dopamine"], "must be one of classic control's"),
        (1, ["--out", "a.mp4", "--which", "newest"], "the steps of a kept save. Received: which='newest'"),
        (1, ["--out", "a.mp4", "--which", "7"], "Nothing was kept at 7 steps; kept: 60, 80, 88."),
    ],
)
def test_wrong_usage_is_one_line_and_leaves_no_file(capsys, trained, tmp_path, monkeypatch, code, words, rule):
    monkeypatch.chdir(tmp_path)
    assert rule in refused(capsys, code, trained, *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.linux
def test_a_folder_that_cannot_be_written_to_is_one_line(capsys, trained):
    err = refused(capsys, 1, trained, "--out", "/proc/a.mp4")
    assert "/proc/" in err


def test_a_directory_that_is_no_run_is_one_line(capsys, tmp_path, trained):
    folder, words = tmp_path / "run", ("--out", tmp_path / "a.mp4")
    assert "A run directory has a config.json. Received: " in refused(capsys, 1, folder, *words)
    folder.mkdir()
    assert "A run directory has a config.json. Received: " in refused(capsys, 1, folder, *words)
    (folder / "config.json").write_text('{"model": "another program\'s"}')
    assert "config.json isn't that of a run. Received: " in refused(capsys, 1, folder, *words)
    (folder / "config.json").write_text('{"rundef": "catch", "arguments": {}}')
    assert "This run has saved no checkpoint. Received: " in refused(capsys, 1, folder, *words)
    broken = shutil.copytree(trained, tmp_path / "broken")
    (broken / "best" / "agent.keras").write_bytes(b"broken")
    assert "agent.keras isn't the file that was saved. Received: " in refused(capsys, 1, broken, *words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "run"]


def test_neither_a_film_nor_a_window_is_refused(trained):
    with pytest.raises(ValueError, match="unless `watch` shows the games. Received: out=None"):
        record_run(trained)
    for name in ("episodes", "zoom"):
        with pytest.raises(ValueError, match=f"Received: {name}=0"):
            record_run(trained, "a.mp4", **{name: 0})
