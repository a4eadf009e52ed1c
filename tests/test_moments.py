"""Games as pictures: every screen, with the score and the decision that belong to it."""

import os

import gymnasium
import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled
from gymnasium.vector import SyncVectorEnv

from dqn_lab.asynchronous.game_policy import GamePolicy
from dqn_lab.environments.catch import Catch
from dqn_lab.evaluation import evaluate
from dqn_lab.films.moments import FilmedGame, FilmedGames
from dqn_lab.sequences.atari import AtariSequence
from dqn_lab.sequences.environment import EnvironmentSequence

SMALL = {"replay_capacity_steps": 60, "replay_min_steps": 4, "updates_per_epoch": 1, "epsilon": 1.0}


def waves(num_actions):
    """A policy whose values are a fixed, uneven function of the features."""

    def policy(features):
        flat = features.reshape(len(features), -1).astype(np.float64)
        return np.sin(flat.sum(axis=1)[:, None] * np.arange(3, 3 + num_actions))

    return policy


def catch_twin(epsilon=0.0, make=Catch, num_envs=1):
    twin = EnvironmentSequence(make, **SMALL).create_validation_instance(epsilon, num_envs)
    twin.policy = waves(twin.num_actions)
    return twin


def breakout_twin(epsilon=0.1, cap=80, **settings):
    settings = {"protocol": "nature-2015", "evaluation_frame_cap": cap} | settings
    twin = AtariSequence("breakout", **SMALL, **settings).create_validation_instance(epsilon, 1)
    twin.policy = waves(twin.num_actions)
    return twin


def screens_after_steps(twin, games):
    """Plays the same games without a film: the screen after each reset and step, and the frames since the reset."""
    environment = twin.environments[0].unwrapped
    environment.render_mode = "rgb_array"
    twin.reseed(7)
    told = []
    while twin.episodes < games:
        twin.simulate_single()
        told.append((environment.render(), environment._emulator.getEpisodeFrameNumber(), twin.get_latest_reward()[0]))
    return told


def test_of_atari_each_frame_of_the_emulator_is_shown():
    games = FilmedGames(breakout_twin())
    moments = list(games.play(1, seed=7))
    expected = screens_after_steps(breakout_twin(), 1)
    assert games.frame_rate == 60
    assert games.action_names == ("NOOP", "FIRE", "RIGHT", "LEFT")
    assert games.games == [FilmedGame(0.0, 20, True)]  # 80 frames, no-ops apart
    frames = expected[-1][1]
    assert 80 < frames <= 110
    assert len(moments) == frames
    opening = [moment for moment in moments if moment.step == 0]
    assert len(opening) == frames - 80
    assert all(moment.decision is None for moment in opening)
    for number, (screen, _, _) in enumerate(expected):
        four = moments[len(opening) + 4 * number :][:4]
        assert [moment.step for moment in four] == [number + 1] * 4
        assert len({id(moment.decision) for moment in four}) == 1
        assert np.array_equal(four[-1].picture, screen)
        assert screen.shape == (210, 160, 3)


def test_the_score_grows_in_the_frame_that_brought_it():
    twin = breakout_twin(epsilon=1.0, cap=1200)
    game, rewards = twin.environments[0].unwrapped, []
    played = game._play_frame
    game._play_frame = lambda action: rewards.append(played(action)) or rewards[-1]
    games = FilmedGames(twin)
    moments = list(games.play(1, seed=7))
    assert [moment.score for moment in moments] == np.cumsum(rewards).tolist()
    assert moments[-1].score == games.games[0].game_return >= 1


@pytest.mark.parametrize("make_twin", [catch_twin, breakout_twin])
def test_the_games_are_those_of_an_evaluation(make_twin):
    twin = make_twin(epsilon=0.5)
    result = evaluate(make_twin(epsilon=0.5), num_episodes=3, num_max_iter=np.inf, seed=5)
    games = FilmedGames(twin)
    shown = [moment.game for moment in games.play(3, seed=5)]
    told = [(game.game_return, game.length, game.capped) for game in games.games]
    assert told == list(zip(result.returns, result.lengths, result.truncated, strict=True))
    assert shown == sorted(shown)
    assert set(shown) == {0, 1, 2}


def test_of_catch_each_state_is_shown_with_what_is_decided_in_it_and_the_last_one():
    games = FilmedGames(catch_twin())
    moments = list(games.play(2, seed=1))
    assert games.frame_rate == 8
    assert games.action_names == ("left", "stay", "right")
    assert [moment.step for moment in moments] == 2 * [*range(1, 10), 9]
    for game in (0, 1):
        own = [moment for moment in moments if moment.game == game]
        balls = [np.argwhere((moment.picture == 255).all(axis=2))[0][0] // 16 for moment in own]
        assert balls == list(range(10))
        assert [moment.score for moment in own] == [0.0] * 9 + [games.games[game].game_return]
        assert [moment.decision is None for moment in own] == [False] * 9 + [True]
        paddles = [np.argwhere(moment.picture[-1, :, 0] == 80)[0][0] // 16 for moment in own[:9]]
        moves = [moment.decision.action - 1 for moment in own[:8]]
        walked = [min(max(paddle + move, 0), 4) for paddle, move in zip(paddles, moves, strict=False)]
        assert walked == paddles[1:]


def test_a_decision_tells_values_and_whether_its_action_was_random():
    twin = catch_twin(epsilon=0.5)
    actions = []
    step = twin.environments[0].step
    twin.environments[0].step = lambda action: actions.append(int(action)) or step(action)
    decisions = [moment.decision for moment in FilmedGames(twin).play(10, seed=2) if moment.decision is not None]
    assert [decision.action for decision in decisions] == actions
    chosen = [decision for decision in decisions if not decision.is_random]
    assert 25 < len(chosen) < 65  # of 90
    assert all(decision.action == np.argmax(decision.values) for decision in chosen)
    assert all(decision.state_value is None for decision in decisions)
    drawn = [decision for decision in decisions if decision.is_random]
    assert any(decision.action == np.argmax(decision.values) for decision in drawn)  # random, though the best


def test_of_an_actor_critic_probabilities_and_the_state_value_are_told():
    twin = catch_twin()

    def forward(states, memory):
        return np.log([[1.0, 2.0, 5.0]]) - 3, np.array([0.25]), memory

    twin.policy = GamePolicy(twin, forward, samples=True, lstm_units=0)
    moments = FilmedGames(twin, is_actor_critic=True).play(10, seed=0)
    decisions = [moment.decision for moment in moments if moment.decision is not None]
    assert all(decision.values == pytest.approx([0.125, 0.25, 0.625]) for decision in decisions)
    assert {decision.state_value for decision in decisions} == {0.25}
    assert {decision.action for decision in decisions} == {0, 1, 2}  # drawn by them
    assert not any(decision.is_random for decision in decisions)


def test_saliency_is_asked_once_a_decision_for_the_state_the_action_and_the_memory_it_was_taken_with():
    twin, told, asked = catch_twin(epsilon=0.5), [], []

    def forward(states, memory):
        told.append((states.copy(), memory.copy()))
        return np.log([[1.0, 2.0, 5.0]]), np.array([0.25]), memory + 1

    def saliency(states, actions, memory):
        asked.append((states.copy(), memory.copy(), actions.tolist()))
        return states * len(asked)

    twin.policy = GamePolicy(twin, forward, samples=True, lstm_units=2)
    games = FilmedGames(twin, is_actor_critic=True, saliency=saliency)
    decisions = [moment.decision for moment in games.play(2, seed=0) if moment.decision is not None]
    assert len(asked) == len(told) == len(decisions) == 18
    for decision, (states, memory), (of, before, actions) in zip(decisions, told, asked, strict=True):
        assert np.array_equal(of, states)
        assert np.array_equal(before, memory)
        assert actions == [decision.action]
        assert np.array_equal(decision.saliency, states[0, :, :, 0])  # ball and paddle, brightest
    assert [before[0, 0, 0] for _, before, _ in asked] == [*range(9), *range(9)]


def test_classic_control_is_drawn_at_its_rate_off_the_screen(monkeypatch):
    monkeypatch.delenv("SDL_VIDEODRIVER", raising=False)
    games = FilmedGames(catch_twin(make=lambda: gymnasium.make("CartPole-v1")))
    moments = list(games.play(1, seed=0))
    assert games.frame_rate == 50
    assert games.action_names == ("left", "right")
    assert len(moments) == games.games[0].length + 1
    assert moments[0].picture.shape == (400, 600, 3)
    assert not np.array_equal(moments[0].picture, moments[-1].picture)
    assert "SDL_VIDEODRIVER" not in os.environ


class Mute(Catch):
    def render(self):
        return None


class Undrawn(Catch):
    def render(self):
        raise DependencyNotInstalled('pygame is not installed, run `pip install "gymnasium[classic_control]"`')


class Blind(Catch):
    metadata = {"render_modes": ["human"]}


@pytest.mark.parametrize(
    ("make", "error", "rule"),
    [
        (Mute, ValueError, r"must return a picture \[H, W, 3\]. Received: Mute with shape \(\)"),
        (Undrawn, ImportError, r"need the extra `video` \(pygame-ce\). pygame is not installed"),
        (Blind, ValueError, r"render mode rgb_array has pictures. Received: Blind with render_modes=\['human'\]"),
    ],
)
def test_an_environment_without_pictures_is_refused(make, error, rule):
    with pytest.raises(error, match=rule):
        list(FilmedGames(catch_twin(make=make)).play(1, seed=0))


def test_several_lanes_and_a_users_vector_environment_are_refused():
    with pytest.raises(ValueError, match="in a twin of one lane. Received: num_envs=2"):
        FilmedGames(catch_twin(num_envs=2))
    with pytest.raises(ValueError, match="A vector environment of a user's own can't be filmed. Received: SyncVectorE"):
        FilmedGames(catch_twin(make=lambda: SyncVectorEnv([Catch])))
