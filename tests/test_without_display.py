"""On a machine without a display or a video device: training, films, and what does need one."""

import cv2
import gymnasium
import pytest

from dqn_lab import cli
from dqn_lab.environments.atari import Atari

SMALL = {
    "num_envs": 1,
    "replay_min_steps": 40,
    "replay_capacity_steps": 400,
    "updates_per_epoch": 2,
    "evaluation_episodes": 1,
    "evaluation_max_steps": 30,
    "initial_states": 0,
    "initial_states_dir": "none",
}


@pytest.fixture(autouse=True)
def no_display(monkeypatch):
    for name in ("SDL_VIDEODRIVER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.case("B128")
@pytest.mark.parametrize(("rundef", "size"), [("cartpole_v1", (600, 400)), ("breakout_v0", (320, 420))])
def test_a_run_is_trained_and_filmed(capsys, tmp_path, rundef, size):
    settings = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    run, film = str(tmp_path / rundef), tmp_path / "game.mp4"
    assert cli.train([rundef, "--run-dir", run, "--updates", "2", *settings]) == 0
    assert cli.record([run, "--out", str(film), "--which", "latest", "--epsilon", "1"]) == 0, capsys.readouterr().err
    capture = cv2.VideoCapture(str(film))
    seen, picture = capture.read()
    assert (seen, picture.shape) == (True, (*size[::-1], 3))
    assert picture.std() > 1  # something is drawn


@pytest.mark.case("B128")
def test_a_render_mode_that_needs_a_window_is_refused():
    with pytest.raises(ValueError, match="render_mode must be None or 'rgb_array'.*Received: render_mode='human'"):
        Atari("breakout", render_mode="human")
    assert gymnasium.make("CartPole-v1").render_mode is None  # what rundefs train in
