"""Whole games as pictures: every screen of a twin's games, with the decision that it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dqn_lab.environments.pictures import Pictures
from dqn_lab.films.heat_map import brightness

_EMULATOR_RATE = 60.0  # frames per second
_ACTION_NAMES = {
    "CartPole": ("left", "right"),
    "MountainCar": ("left", "none", "right"),
    "Acrobot": ("left", "none", "right"),
}


@dataclass(frozen=True, eq=False)
class Decision:
    """What an agent made of a state.

    Args:
        values: action values, or of an actor-critic the probabilities of the actions, [A].
        state_value: of an actor-critic, V(s); else None.
        action: the one taken.
        is_random: it was drawn uniformly, by epsilon.
        saliency: how much each pixel of the state mattered to the action's value, 0 to 1, [H, W] of the state; or None.
    """

    values: np.ndarray
    state_value: float | None
    action: int
    is_random: bool
    saliency: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Moment:
    """One picture of a game.

    Args:
        picture: uint8 [H, W, 3], RGB.
        game: its number.
        step: number of the decision, from 1 on; 0 before the first one.
        score: raw, undiscounted return so far.
        decision: of Atari the one that led to the picture, elsewhere the one taken in it; None at a game's start
            (no-ops, FIRE) and after its end.
    """

    picture: np.ndarray
    game: int
    step: int
    score: float
    decision: Decision | None


@dataclass(frozen=True)
class FilmedGame:
    """A game that was played to its end.

    Args:
        game_return: raw and undiscounted.
        length: steps.
        capped: ended by its frame cap or time limit, not by its own rules.
    """

    game_return: float
    length: int
    capped: bool


class FilmedGames:
    """Plays whole games in a twin of one lane, the same as `evaluate` does, and shows each of their pictures.

    Of Atari that is each frame of the emulator, those before the first decision too. Elsewhere it is what the
    environment renders of each state, the last one of a game too.

    Args:
        twin: of a sequence's `create_validation_instance`, with one lane, led by the agent.
        is_actor_critic: the agent's policy is logits, see `GamePolicy`; else action values.
        saliency: a `Saliency` of the agent's network; None for no maps.

    Attributes:
        games: those that have ended, in order.
        is_actor_critic: as given.
        frame_rate: pictures per second.
        action_names: of the actions by their numbers; "" where the environment has none.

    Raises:
        ValueError: the twin has more lanes, or its environment can't show itself.
    """

    def __init__(self, twin, is_actor_critic: bool = False, saliency: Callable | None = None) -> None:
        environment = _only_environment(twin)
        self.games: list[FilmedGame] = []
        self._twin, self.is_actor_critic, self._saliency = twin, is_actor_critic, saliency
        self._screens = (_EmulatorScreens if hasattr(environment.unwrapped, "on_frame") else _Renders)(environment)
        self.frame_rate = self._screens.rate
        self.action_names = _action_names(environment, twin.num_actions)
        self._policy, twin.policy = twin.policy, self._act
        self._values, self._states = np.zeros(twin.num_actions), None

    def play(self, episodes: int, seed: int) -> Iterator[Moment]:
        """Plays games 0 to `episodes` - 1 of a seed, and yields their pictures in order."""
        self._twin.reseed(seed)
        for number in range(episodes):
            yield from self._play_one(number)

    def _play_one(self, number: int) -> Iterator[Moment]:
        score, step, ended = 0.0, 0, False
        while not ended:
            self._twin.simulate_single()
            opening, shown = self._screens.take()
            for picture, _ in opening:
                yield Moment(picture, number, 0, 0.0, None)
            step, running, decision = step + 1, score, self._decision()
            for picture, reward in shown:
                running += reward
                yield Moment(picture, number, step, running, decision)
            score += float(self._twin.get_latest_reward()[0])
            ended = bool(self._twin.get_latest_episode_end()[0])
        for picture in self._screens.last():
            yield Moment(picture, number, step, score, None)
        self.games.append(FilmedGame(score, step, bool(self._twin.get_latest_truncation()[0])))

    def _act(self, states: np.ndarray) -> np.ndarray:
        self._screens.decide()
        values = np.asarray(self._policy(states))  # [1, A]
        self._values, self._states = values[0], states
        return values

    def _decision(self) -> Decision:
        action, is_random = int(self._twin.get_latest_action()[0]), bool(self._twin.get_latest_exploration()[0])
        saliency = None if self._saliency is None else self._map(action)
        if not self.is_actor_critic:
            return Decision(self._values, None, action, is_random, saliency)
        logits, state_value = self._policy.latest_values[0], float(self._policy.latest_state_values[0])
        return Decision(_softmax(logits), state_value, action, is_random, saliency)

    def _map(self, action: int) -> np.ndarray:
        memory = getattr(self._policy, "latest_memory", None)
        return brightness(self._saliency(self._states, np.array([action]), memory))[0]  # [H, W]


class _EmulatorScreens:
    """Every frame of Atari, as the emulator plays it."""

    rate = _EMULATOR_RATE

    def __init__(self, environment) -> None:
        self._game = environment.unwrapped
        self._game.render_mode, self._game.on_frame = "rgb_array", self._add
        self._opening: list[tuple[np.ndarray, float]] = []  # each with its reward
        self._pending: list[tuple[np.ndarray, float]] = []

    def decide(self) -> None:
        """What was played by now belongs to the game's start, what comes to the decision."""
        self._opening, self._pending = self._pending, []

    def take(self) -> tuple[list, list]:
        """Returns pictures with their rewards: those before the last decision, and those that belong to it."""
        taken = self._opening, self._pending
        self._opening, self._pending = [], []
        return taken

    def last(self) -> list[np.ndarray]:
        """Returns what is left to see of a game that has ended."""
        return []

    def _add(self, reward: float) -> None:
        self._pending.append((self._game.render(), reward))


class _Renders:
    """What an environment renders of each state in which a decision is taken, and of a game's last one."""

    def __init__(self, environment) -> None:
        self._picture = Pictures(environment)
        self.rate = self._picture.rate
        self._shown: list[tuple[np.ndarray, float]] = []

    def decide(self) -> None:
        self._shown = [(self._picture(), 0.0)]

    def take(self) -> tuple[list, list]:
        return [], self._shown

    def last(self) -> list[np.ndarray]:
        return [self._picture()]


def _only_environment(twin):
    (first, *others) = twin.environments
    if hasattr(first, "num_envs"):
        name = type(first.unwrapped).__name__
        raise ValueError(f"A vector environment of a user's own can't be filmed. Received: {name}")
    if others:
        raise ValueError(f"Games are filmed in a twin of one lane. Received: num_envs={twin.num_envs}")
    return first


def _action_names(environment, num_actions: int) -> tuple[str, ...]:
    own: Callable | None = getattr(environment.unwrapped, "get_action_meanings", None)
    name = environment.spec.id.split("-")[0] if environment.spec is not None else ""
    names = tuple(own()) if own is not None else _ACTION_NAMES.get(name, ())
    return names if len(names) == num_actions else ("",) * num_actions


def _softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())  # [A]
    return weights / weights.sum()
