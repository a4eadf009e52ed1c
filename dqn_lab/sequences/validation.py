"""The evaluation twin of a sequence: its front end over environments, generators and a tiny ring of its own."""

import gymnasium
import numpy as np

from dqn_lab.arguments import require_fraction, require_integer
from dqn_lab.environments.lanes import Lanes
from dqn_lab.exploration import draw_exploration
from dqn_lab.replay.replay import Replay
from dqn_lab.replay.ring import FrameRing
from dqn_lab.sequences.policy import action_values
from dqn_lab.sequences.readings import SimulationReadings
from dqn_lab.sequences.simulation import Simulation


class ValidationInstance(SimulationReadings):
    """Plays whole games beside a training sequence, without touching it. Made by `create_validation_instance`.

    Games are numbered. Game i is seeded, environment and exploration, by (seed, i), so that its course depends on
    the policy alone and on no other lane. (A user's own vector environment resets its lanes itself: then only the
    first game of each lane is seeded.)

    Args:
        sequence: whose hooks make states and rewards.
        lanes: its own environments.
        epsilon: probability of a random action.

    Attributes:
        policy: features [N, ...] -> action values [N, A]; uniformly random actions when None.
        epsilon: probability of a random action.
        episode_number: number of the game that each lane's last decision belonged to, [N].
        games_begun: games that each lane has begun so far, those without a number too, [N].
    """

    def __init__(self, sequence, lanes: Lanes, epsilon: float) -> None:
        self.policy = None
        self.epsilon = require_fraction("epsilon", epsilon)
        self.num_envs, self.num_actions = lanes.num_envs, lanes.num_actions
        self.episode_number = np.full(self.num_envs, -1)
        self.games_begun = np.zeros(self.num_envs, int)
        self._replay = _make_tiny_replay(lanes, sequence.get_states_start())
        self._front_end = sequence.reading_from(self._replay)
        self._simulation = Simulation(lanes, self._replay, self._front_end.get_terminal)
        self._identity = sequence.get_identity()
        self._seed, self._next_episode = 0, 0
        self._generators: list[np.random.Generator] = []
        self._explored = np.zeros(self.num_envs, bool)

    @property
    def environments(self) -> list:
        """What is played in: an environment a lane, or a user's own vector environment."""
        return self._simulation.lanes.environments()

    @property
    def initial_decisions(self) -> int:
        """Decisions after a reset before a state spans as many observations as it can."""
        return self._replay.span - 1

    @property
    def seed(self) -> int:
        """Of the games: game i is seeded by (seed, i)."""
        return self._seed

    def key(self) -> str:
        """Returns what identifies environment and front end, for caches."""
        return self._identity

    def reseed(self, seed: int) -> None:
        """Begins anew in all lanes: lane j plays game j.

        Args:
            seed: of all games from here on.

        Raises:
            TypeError, ValueError: it is no integer of 0 or more.
        """
        self._seed, self._next_episode = require_integer("seed", seed, least=0), 0
        self._generators = [None] * self.num_envs
        self._begin_episodes(np.ones(self.num_envs, bool))

    def restart(self, seed: int | None = None) -> None:
        """Resets all lanes plainly, for states that belong to no numbered game.

        Args:
            seed: of environments and actions; None to go on with their generators.

        Raises:
            TypeError, ValueError: it is no integer of 0 or more.
        """
        if seed is not None or not self._generators:
            self._seed = require_integer("seed", seed or 0, least=0)
            self._generators = [_generator(self._seed, lane) for lane in range(self.num_envs)]
            self._simulation.begin([_seed(self._seed, lane) for lane in range(self.num_envs)])
        else:
            self._simulation.begin()
        self.games_begun = self.games_begun + 1

    def simulate_single(self) -> None:
        """Takes one decision in every lane; a lane whose game has ended begins the next one first."""
        self._begin_once()
        by_themselves = self._simulation.lanes.resets_itself
        begins = self._simulation.begun if by_themselves else self._simulation.episode_end
        if begins.any():
            self._begin_episodes(begins)
        values = None
        if self.policy is not None:
            values = action_values(self.policy, self.get_latest_feature(), self.num_actions)  # [N, A]
        self._simulation.step(self._choose_actions(values))

    def get_latest_feature(self) -> np.ndarray:
        """Returns the newest states, [N, ...]: where the next actions will be taken, but for games that have ended."""
        self._begin_once()
        return self._front_end.ask_states(self._replay.ring.newest_index)

    def get_latest_exploration(self) -> np.ndarray:
        """Tells where the last decision's action was drawn uniformly at random. [N] bool"""
        return self._explored.copy()

    def get_latest_transition(self) -> dict[str, np.ndarray]:
        """Returns the last decision of every lane as the learner would see it.

        Returns:
            state [N, ...], action [N], reward [N] (the learner's), terminal [N] bool, next_state [N, ...].
        """
        index = self._simulation.decided  # [N]
        return {
            "state": self._front_end.ask_states(index),
            "action": self.get_latest_action(),
            "reward": self._front_end.ask_rewards(index),
            "terminal": self.get_latest_terminal(),
            "next_state": self._front_end.ask_states(index + self.num_envs),
        }

    def _begin_once(self) -> None:
        if not self._generators:
            self.reseed(0)

    def _choose_actions(self, values: np.ndarray | None) -> np.ndarray:
        epsilon = 1.0 if values is None else self.epsilon
        # A game's draws depend on no other lane.
        drawn = [draw_exploration(1, self.num_actions, epsilon, generator) for generator in self._generators]
        self._explored, action = map(np.concatenate, zip(*drawn, strict=True))  # [N], [N]
        return action if values is None else np.where(self._explored, action, np.argmax(values, axis=1))  # [N]

    def _begin_episodes(self, lanes: np.ndarray) -> None:
        numbers = self._next_episode + np.arange(int(lanes.sum()))
        self._next_episode += len(numbers)
        self.episode_number = self.episode_number.copy()
        self.episode_number[lanes] = numbers
        self.games_begun = self.games_begun + lanes
        seeds: list[int | None] = [None] * self.num_envs
        for lane, number in zip(np.flatnonzero(lanes), numbers.tolist(), strict=True):
            seeds[lane] = _seed(self._seed, number)
            self._generators[lane] = _generator(self._seed, number)
        if self._simulation.lanes.resets_itself:
            if lanes.all() and numbers[0] == 0:
                self._simulation.begin(seeds)
        else:
            self._simulation.begin(seeds, lanes)


def _make_tiny_replay(lanes: Lanes, span: int) -> Replay:
    space: gymnasium.spaces.Box = lanes.observation_space
    rows = span + 1 + lanes.resets_itself  # a state, its next one, and a first observation that came on its heels
    ring = FrameRing(rows * lanes.num_envs, lanes.num_envs, space.shape, space.dtype)
    return Replay(ring, span=span, n_step=1)


def _seed(seed: int, number: int) -> int:
    """Seeds the environment of a game; emulators take 31 bits."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0] >> 1)


def _generator(seed: int, number: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence([seed, number]).spawn(1)[0])
