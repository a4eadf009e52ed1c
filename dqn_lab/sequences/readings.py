"""What a sequence and its evaluation twin tell of their simulation."""

import numpy as np

from dqn_lab.sequences.simulation import Simulation


class SimulationReadings:
    """Read-only counts and the last decision of `self._simulation`."""

    _simulation: Simulation

    @property
    def steps(self) -> int:
        """Actions taken so far, all lanes together, the initial fill included."""
        return self._simulation.steps

    @property
    def frames(self) -> int:
        """Emulator frames that the steps stand for."""
        return self._simulation.frames

    @property
    def episodes(self) -> int:
        """Games that have ended."""
        return self._simulation.episodes

    @property
    def episode_return_sum(self) -> float:
        """Raw, undiscounted returns of the games that have ended, added up."""
        return self._simulation.episode_return_sum

    @property
    def episode_length_sum(self) -> int:
        """Lengths in steps of the games that have ended, added up."""
        return self._simulation.episode_length_sum

    def get_latest_index(self) -> np.ndarray:
        """Returns the rows in which the last decision was taken; what it led to is `num_envs` further on. [N] int64"""
        return self._simulation.decided.copy()

    def get_latest_action(self) -> np.ndarray:
        """Returns the actions of the last decision. [N] int64"""
        return self._simulation.action.copy()

    def get_latest_reward(self) -> np.ndarray:
        """Returns the raw rewards of the last decision. [N] float64"""
        return self._simulation.reward.copy()

    def get_latest_terminal(self) -> np.ndarray:
        """Tells where the last decision was terminal for the learner. [N] bool"""
        return self._simulation.terminal.copy()

    def get_latest_episode_end(self) -> np.ndarray:
        """Tells where the last decision ended the game, by its rules or by truncation. [N] bool"""
        return self._simulation.episode_end.copy()

    def get_latest_truncation(self) -> np.ndarray:
        """Tells where the last decision ended the game by truncation. [N] bool"""
        return self._simulation.truncation.copy()

    def get_latest_acted(self) -> np.ndarray:
        """Tells where the last decision was carried out; a lane that only reset itself ignores it. [N] bool"""
        return self._simulation.acted.copy()

    def close(self) -> None:
        """Closes the environments."""
        self._simulation.lanes.close()
