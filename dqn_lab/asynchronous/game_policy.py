"""What an evaluation twin acts by where a policy is sampled, or remembers."""

from collections.abc import Callable

import numpy as np

from dqn_lab.exploration import perturbed_logits


class GamePolicy:
    """Values of a twin's newest states, by a memory and dice that each game has for itself.

    A game's memory begins with 0, and its dice are seeded by (twin's seed, game's number), so that its course depends
    on no other game: any number of lanes gives the same results.

    It belongs to one twin, and each call is one decision in all its lanes.

    Args:
        twin: whose games are played.
        forward: states [N, ...], memory [2, N, U] or None -> values or logits [N, A], state values [N], memory after
            them.
        samples: values are a policy's logits, to be sampled.
        lstm_units: units U of an LSTM's memory; 0 without one.

    Attributes:
        latest_values, latest_state_values: what the network said at the last decision, no dice in it, [N, A] and [N].
        latest_memory: what it was told then, [2, N, U]; None without an LSTM.
    """

    def __init__(self, twin, forward: Callable, *, samples: bool, lstm_units: int):
        self._twin, self._forward, self._samples = twin, forward, samples
        self._memory = np.zeros((2, twin.num_envs, lstm_units), np.float32) if lstm_units else None  # [2, N, U]
        self._generators: list = [None] * twin.num_envs
        self._games_begun = np.full(twin.num_envs, -1)  # [N]
        self.latest_values = self.latest_state_values = self.latest_memory = None

    def __call__(self, states: np.ndarray) -> np.ndarray:
        """[N, ...] -> [N, A]"""
        self._begin_games()
        self.latest_memory = self._memory  # a new array follows it
        values, self.latest_state_values, self._memory = self._forward(states, self._memory)  # [N, A], [N], [2, N, U]
        self.latest_values = values  # [N, A]
        if self._samples:
            values = np.stack(list(map(perturbed_logits, values, self._generators)))  # [N, A]
        return values

    def _begin_games(self) -> None:
        begun = self._twin.games_begun
        for lane in np.flatnonzero(begun != self._games_begun):
            if self._memory is not None:
                self._memory[:, lane] = 0
            self._generators[lane] = _generator(self._twin.seed, int(self._twin.episode_number[lane]))
        self._games_begun = begun


def _generator(seed: int, number: int) -> np.random.Generator:
    """Apart from the generator of the game's random actions, which is the first child of (seed, number)."""
    return np.random.default_rng(np.random.SeedSequence([seed, max(number, 0)], spawn_key=(1,)))
