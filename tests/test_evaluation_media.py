"""What evaluations leave to look at: films of their first game, values of the initial states, and the same scores."""

import io
import logging
import math
from types import SimpleNamespace

import evaluated_catch
import gymnasium
import keras
import numpy as np
import pytest
from feeding_worlds import table_network
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import SyncVectorEnv
from PIL import Image

from dqn_lab import DQN, AtariSequence, Evaluation
from dqn_lab.asynchronous.agent import AsynchronousAgent
from dqn_lab.callbacks.evaluation_media import GameFilm
from dqn_lab.environments.catch import Catch
from dqn_lab.evaluation import evaluate
from dqn_lab.sequences.environment import EnvironmentSequence

WHITE = (255, 255, 255)


class Counting(gymnasium.Env):
    """Games of so many steps; a picture's colour tells the step, and the reward is 1 at each."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}

    def __init__(self, length):
        self.observation_space = Box(0, 1, (1,), np.float32)
        self.action_space = Discrete(2)
        self.length, self.steps, self.drawn, self.render_mode = length, 0, [], None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(1, np.float32), 1.0, self.steps == self.length, False, {}

    def render(self):
        self.drawn.append(self.steps)
        return np.full((4, 4, 3), (self.steps // 256, self.steps % 256, 0), np.uint8)


class Blind(Catch):
    metadata = {"render_modes": ["human"]}


class Torn(Catch):
    """Can't be drawn any more in the middle of a game."""

    def render(self):
        if self._row == 4:
            raise RuntimeError("no pen")
        return super().render()


def sequence_of(make=Catch, **settings):
    usual = {"replay_capacity_steps": 400, "replay_min_steps": 4, "updates_per_epoch": 1, "batch_size": 2, "epsilon": 1}
    return EnvironmentSequence(make, **usual | settings)


def twin_of(make=Catch, num_envs=1, epsilon=1.0, **settings):
    twin = sequence_of(make, **settings).create_validation_instance(epsilon, num_envs=num_envs)
    twin.policy = lambda states: np.eye(twin.num_actions)[np.zeros(len(states), int)]
    return twin


def filmed(twin, num_episodes=1, num_max_iter=math.inf):
    film = GameFilm(twin)
    result = evaluate(twin, num_episodes=num_episodes, num_max_iter=num_max_iter, watch=film)
    return film, result


def pictures_of(gif):
    """Of a film's file: pictures [T, H, W, 3] and how long each is shown, in milliseconds."""
    image, pictures, durations = Image.open(io.BytesIO(gif.data)), [], []
    assert image.format == "GIF"
    assert image.info["loop"] == 0  # for ever
    for number in range(image.n_frames):
        image.seek(number)
        pictures.append(np.asarray(image.convert("RGB")))
        durations.append(image.info["duration"])
    assert image.size == (gif.width, gif.height)
    return np.array(pictures), durations


def steps_of(gif):
    """Of a film of `Counting`: the steps shown."""
    pictures, _ = pictures_of(gif)
    return (pictures[:, 0, 0].astype(int) @ [256, 1, 0]).tolist()


# A film.


@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_film_is_of_the_first_game_whole_and_of_nothing_behind_it(num_envs):
    film, result = filmed(twin_of(num_envs=num_envs), num_episodes=4)
    assert result.lengths == (9, 9, 9, 9)
    pictures, durations = pictures_of(film.encode())
    assert pictures.shape == (10, 160, 80, 3)  # before the first decision and after each
    for row, picture in enumerate(pictures):  # the ball falls a row a step
        assert [line for line in range(10) if (picture[16 * line] == WHITE).all(axis=1).any()] == [row]
    assert durations == [120] * 9 + [1000]  # 8 a second; a GIF counts in hundredths
    assert film.failure is None


def test_the_games_of_a_film_are_played_by_the_twins_policy():
    twin = twin_of(epsilon=0.0)  # always left
    pictures, _ = pictures_of(filmed(twin)[0].encode())
    paddles = [int(np.flatnonzero(picture[-1].any(axis=1))[0]) // 16 for picture in pictures[:-1]]
    assert paddles == [2, 1] + [0] * 7


def test_a_picture_is_at_most_160_pixels_long_and_is_never_enlarged():
    large, small = (
        filmed(twin_of(lambda: Catch("kaixhin")))[0].encode(),
        filmed(twin_of(lambda: Counting(3)))[0].encode(),
    )
    assert (large.width, large.height) == (160, 160)  # of 384
    assert (small.width, small.height) == (4, 4)


def test_a_film_is_no_faster_than_25_pictures_a_second():
    assert pictures_of(filmed(twin_of(lambda: Counting(3)))[0].encode())[1] == [40, 40, 40, 1000]


@pytest.mark.parametrize(
    ("length", "shown"),
    [
        (299, range(300)),
        (300, range(0, 301, 2)),  # 301 pictures are too many
        (301, [*range(0, 301, 2), 301]),
        (599, [*range(0, 597, 4), 599]),  # 151 pictures of the first 301, then 149, and with the end too many again
        (600, range(0, 601, 4)),
        (701, [*range(0, 701, 4), 701]),
    ],
)
def test_beyond_300_pictures_every_other_one_is_left_out_and_the_end_is_shown(length, shown):
    assert steps_of(filmed(twin_of(lambda: Counting(length)))[0].encode()) == list(shown)


def test_what_is_not_shown_is_not_drawn():
    made = []

    def make():
        made.append(Counting(700))
        return made[-1]

    twin = twin_of(make)
    filmed(twin, num_episodes=2)
    (drawn,) = [each.drawn for each in made if each.drawn]
    assert drawn == [*range(301), *range(302, 601, 2), *range(604, 701, 4)]


def test_a_game_that_the_step_limit_cuts_off_is_shown_as_far_as_it_went():
    film, result = filmed(twin_of(lambda: Counting(50)), num_episodes=math.inf, num_max_iter=7)
    assert result.cut == 1
    assert steps_of(film.encode()) == list(range(8))


# What is not filmed, and what filming leaves as it is.


@pytest.mark.parametrize("make", [Catch, Torn])
def test_filming_changes_no_score_no_game_and_no_state(make):
    seen, results, states = [], [], []
    for films in (False, True):
        twin, actions = twin_of(make, num_envs=3, epsilon=0.5), []
        film = GameFilm(twin) if films else lambda: None

        def watch(film=film, twin=twin, actions=actions):
            film()
            actions.append(twin.get_latest_feature().tolist())

        results.append(evaluate(twin, num_episodes=20, num_max_iter=math.inf, seed=5, watch=watch))
        seen.append(actions)
        states.append([environment.get_state() for environment in twin.environments])
    assert results[0] == results[1]
    assert len(set(results[0].returns)) == 2
    assert seen[0] == seen[1]
    assert states[0] == states[1]


def test_filming_changes_nothing_of_an_atari_game():
    settings = {"protocol": "nature-2015", "replay_capacity_steps": 400, "replay_min_steps": 40, "num_envs": 1}
    sequence = AtariSequence("pong", updates_per_epoch=1, epsilon=1.0, **settings)
    results, states = [], []
    for films in (False, True):
        twin = sequence.create_validation_instance(1.0, num_envs=2)
        watch = GameFilm(twin) if films else None
        twin.policy = lambda states: np.zeros((len(states), 6))
        results.append(evaluate(twin, num_episodes=math.inf, num_max_iter=60, seed=1, watch=watch))
        states.append([environment.get_state() for environment in twin.environments])
    sequence.close()
    assert results[0] == results[1]
    np.testing.assert_equal(states[0], states[1])
    gif = watch.encode()
    assert (gif.width, gif.height) == (122, 160)
    pictures, durations = pictures_of(gif)
    assert sum(durations) == 60 * 60 + 1000  # 15 a second, in hundredths; equal pictures in a row are one, shown longer
    assert len(pictures) > 30


def test_what_drawing_raises_ends_the_film_and_no_evaluation():
    film, result = filmed(twin_of(Torn), num_episodes=3)
    assert result.episodes == 3
    assert str(film.failure) == "no pen"


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (Blind, r"mode rgb_array has pictures. Received: Blind with render_modes=\['human'\]"),
        (
            lambda: SyncVectorEnv([Catch]),
            "A vector environment of a user's own can't be filmed. Received: SyncVectorEnv",
        ),
    ],
)
def test_what_cannot_be_filmed_is_refused_with_the_reason(make, rule):
    with pytest.raises(ValueError, match=rule):
        GameFilm(twin_of(make))


# The media of the evaluation callback.


class Tape(keras.callbacks.Callback):
    """Keeps the media and the logs of each epoch."""

    def __init__(self, evaluation):
        super().__init__()
        self.evaluation, self.media, self.logs = evaluation, [], []

    def on_epoch_end(self, epoch, logs=None):
        self.media.append(self.evaluation.media)
        self.logs.append({key: value for key, value in logs.items() if key.startswith(("eval", "initial"))})


def fitted(make=Catch, epochs=1, bias=(1, 2, 3), **given):
    """The tape of a fit of an agent that learns nothing: its values are the bias."""
    sequence = sequence_of(make)
    network = keras.Sequential(
        [keras.Input((10, 5, 1)), keras.layers.Flatten(), *table_network(np.zeros((50, 3)), bias).layers[1:]]
    )
    agent = DQN(network, target_period_updates=5)
    agent.compile(keras.optimizers.SGD(0.0))
    usual = {"num_initial_states": 5, "init_state_dir": None, "num_envs": 2, "media_period_evaluations": 1}
    evaluation = Evaluation(sequence.create_validation_instance, 0.5, 6, math.inf, **usual | given)
    tape = Tape(evaluation)
    agent.fit(sequence, epochs=epochs, callbacks=[evaluation, tape], verbose=0)
    evaluation.close()
    sequence.close()
    return tape


def test_an_evaluation_leaves_a_film_and_the_action_values_of_the_initial_states():
    (media,) = fitted().media
    assert len(pictures_of(media.film)[0]) == 10
    np.testing.assert_array_equal(media.values, [[1, 2, 3]] * 5)


def test_of_no_initial_states_there_are_no_values():
    (media,) = fitted(num_initial_states=0).media
    assert media.values.size == 0
    assert media.film is not None


def test_of_an_actor_critic_the_values_are_those_of_the_states():
    sequence = evaluated_catch.make_sequence(0.0, 0)
    agent = AsynchronousAgent(evaluated_catch.make_network(), actor_critic=True)
    evaluation = Evaluation(
        sequence.create_validation_instance, 0.0, 4, math.inf, 7, None, num_envs=2, media_period_evaluations=1
    )
    evaluation.set_model(agent)
    agent.sequence = SimpleNamespace(gamma=sequence.gamma, epoch_complete=True, steps=1, protocol=None)
    evaluation.on_train_begin()
    evaluation.on_epoch_end(0, logs := {})
    assert evaluation.media.values.shape == (7,)
    assert evaluation.media.values.mean() == pytest.approx(logs["initial_state_value"])
    assert len(pictures_of(evaluation.media.film)[0]) == 10
    evaluation.close()


@pytest.mark.parametrize(
    ("evaluation_period", "media_period", "epochs"),
    [(1, 0, []), (1, 1, [1, 2, 3, 4, 5, 6, 7, 8]), (1, 3, [1, 3, 6]), (2, 1, [1, 2, 4, 6, 8]), (2, 2, [1, 4, 8])],
)
def test_the_period_counts_evaluations_and_the_first_leaves_media_too(evaluation_period, media_period, epochs):
    tape = fitted(
        epochs=8, num_initial_states=1, period_epochs=evaluation_period, media_period_evaluations=media_period
    )
    assert [number for number, media in enumerate(tape.media, 1) if media is not None] == epochs


def test_without_media_nothing_is_drawn_and_the_figures_are_the_same():
    made = []

    class Drawn(Catch):
        def render(self):
            made.append(1)
            return super().render()

    without = fitted(Drawn, epochs=2, media_period_evaluations=0)
    assert made == []
    with_media = fitted(Drawn, epochs=2)
    assert len(made) == 20
    assert without.logs == with_media.logs


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (Blind, "Only an environment with the render mode rgb_array has pictures. Received: Blind with "),
        (Torn, "no pen"),
        (
            lambda: SyncVectorEnv([Catch]),
            "A vector environment of a user's own can't be filmed. Received: SyncVectorEnv",
        ),
    ],
)
def test_where_there_can_be_no_film_one_line_says_so_and_the_values_stay(make, reason, caplog):
    caplog.set_level(logging.INFO, logger="dqn_lab")
    arguments = {} if make in (Blind, Torn) else {"num_envs": 1}
    tape = fitted(make, epochs=3, **arguments)
    assert [media.film for media in tape.media] == [None, None, None]
    assert [media.values.shape for media in tape.media] == [(5, 3)] * 3
    lines = [line for line in caplog.messages if "film" in line and "evaluations have" in line]
    assert len(lines) == 1
    assert lines[0].startswith(f"evaluations have no film: {reason}")
    assert tape.logs == fitted(Catch if make in (Blind, Torn) else make, epochs=3, **arguments).logs


@pytest.mark.parametrize(
    ("period", "error"),
    [(-1, ValueError), (1.5, TypeError), ("often", TypeError), (None, TypeError), (True, TypeError)],
)
def test_a_period_that_is_no_whole_number_is_refused(period, error):
    with pytest.raises(error, match="^`media_period_evaluations` must be .*Received: media_period_evaluations="):
        Evaluation(print, 0.0, 1, math.inf, media_period_evaluations=period)
