"""Pictures of environments: what they show, and that an environment goes on as if none had been taken."""

import gymnasium
import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled

from dqn_lab.environments.atari import Atari
from dqn_lab.environments.catch import Catch
from dqn_lab.environments.pictures import Pictures

WHITE, BLUE, BLACK = (255, 255, 255), (80, 160, 255), (0, 0, 0)
MAKERS = {
    "catch": Catch,
    "catch kaixhin": lambda: Catch("kaixhin"),
    "atari": lambda: Atari("pong", repeat_action_probability=0.25, noop_max=30),
    **{name: lambda name=name: gymnasium.make(name) for name in ("CartPole-v1", "Acrobot-v1", "MountainCar-v0")},
}
SHAPES = {
    "catch": (160, 80, 3),
    "catch kaixhin": (384, 384, 3),
    "atari": (210, 160, 3),
    "CartPole-v1": (400, 600, 3),
    "Acrobot-v1": (500, 500, 3),
    "MountainCar-v0": (400, 600, 3),
}
RATES = {"catch": 8, "catch kaixhin": 8, "atari": 15, "CartPole-v1": 50, "Acrobot-v1": 15, "MountainCar-v0": 30}


def played(make, *, draws):
    """All that an environment tells in 40 steps, and its pictures."""
    environment = make()
    picture = Pictures(environment) if draws else None
    told, pictures = [environment.reset(seed=3)], []
    actions = np.random.default_rng(0).integers(environment.action_space.n, size=40)
    for action in actions:
        if draws:
            pictures += [picture(), picture()]
        told.append(environment.step(int(action)))
        if told[-1][2]:
            told.append(environment.reset())
    environment.close()
    return told, pictures


@pytest.mark.parametrize("name", MAKERS)
def test_an_environment_goes_on_as_if_no_picture_had_been_taken(name):
    told, pictures = played(MAKERS[name], draws=True)
    expected, _ = played(MAKERS[name], draws=False)
    np.testing.assert_equal(told, expected)
    assert {(each.shape, each.dtype) for each in pictures} == {(SHAPES[name], np.dtype(np.uint8))}
    for one, again in zip(pictures[::2], pictures[1::2], strict=True):
        np.testing.assert_array_equal(one, again)  # to look twice shows the same
    assert any((one != other).any() for one, other in zip(pictures, pictures[2:], strict=False))


@pytest.mark.parametrize("name", ["catch", "catch kaixhin", "atari"])
def test_the_state_that_is_saved_is_unchanged_by_a_picture(name):
    environment = MAKERS[name]()
    picture = Pictures(environment)
    environment.reset(seed=0)
    environment.step(1)
    before = environment.get_state()
    picture()
    np.testing.assert_equal(environment.get_state(), before)


@pytest.mark.parametrize("name", MAKERS)
def test_the_rate_is_the_games_own_speed(name):
    environment = MAKERS[name]()
    assert Pictures(environment).rate == RATES[name]
    environment.close()


def test_a_picture_is_in_rgb_of_the_moment_and_stays_as_it_was_taken():
    environment = Catch()
    picture = Pictures(environment)
    environment.reset(seed=0)
    environment.set_state(environment.get_state() | {"ball": [0, 1.0, 0.0], "paddle": 2})
    first = picture()
    environment.step(2)  # to the right
    second = picture()
    for taken, ball, paddle in ((first, (0, 1), 2), (second, (1, 1), 3)):
        cells = taken[::16, ::16]  # [10, 5, 3]
        assert tuple(cells[ball]) == WHITE
        assert tuple(cells[9, paddle]) == BLUE
        assert (cells != BLACK).any(axis=2).sum() == 2


class Rendered(Catch):
    """Its picture is whatever it is told."""

    metadata = {"render_modes": ["human", "rgb_array"]}
    shown = None

    def render(self):
        if isinstance(self.shown, Exception):
            raise self.shown
        return self.shown


def test_an_environment_that_tells_no_rate_has_30_pictures_a_second():
    assert Pictures(Rendered()).rate == 30


@pytest.mark.parametrize(
    ("shown", "shape"), [(None, r"\(\)"), (np.zeros((4, 5)), r"\(4, 5\)"), (np.zeros((4, 5, 4)), r"\(4, 5, 4\)")]
)
def test_what_is_no_picture_is_refused(shown, shape):
    environment = Rendered()
    environment.shown = shown
    with pytest.raises(ValueError, match=rf"must return a picture \[H, W, 3\]. Received: Rendered with shape {shape}"):
        Pictures(environment)()


def test_what_drawing_raises_is_passed_on_and_a_missing_package_is_named():
    environment = Rendered()
    environment.shown = RuntimeError("no pen")
    with pytest.raises(RuntimeError, match="^no pen$"):
        Pictures(environment)()
    environment.shown = DependencyNotInstalled("pygame is not installed")
    with pytest.raises(ImportError, match=r"need the extra `video` \(pygame-ce\). pygame is not installed"):
        Pictures(environment)()


@pytest.mark.parametrize("modes", [[], None, ["human", "ansi"]])
def test_an_environment_without_the_mode_is_refused(modes):
    environment = Catch()
    environment.metadata = {"render_modes": modes}
    with pytest.raises(ValueError, match=r"mode rgb_array has pictures. Received: Catch with render_modes=\["):
        Pictures(environment)
    assert environment.render_mode is None
