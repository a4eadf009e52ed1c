"""The sequence for any gymnasium environment with Discrete actions and Box observations."""

import numpy as np

from dqn_lab.sequences.synchronous import SynchronousSequence


class EnvironmentSequence(SynchronousSequence):
    """A sequence whose states are single observations and whose rewards are raw.

    A step counts as one frame, or as many as the environment's info gives as a number `frames`.

    Example:

        sequence = EnvironmentSequence(
            lambda: gymnasium.make("CartPole-v1"),
            replay_capacity_steps=50_000,
            replay_min_steps=1_000,
            updates_per_epoch=1_000,
            epsilon=LinearSchedule(1.0, 0.05, decay_steps=10_000),
        )
    """

    def get_states_start(self) -> int:
        """A state is one observation."""
        return 1

    def get_feature_by_index(self, index: np.ndarray) -> np.ndarray:
        """Returns the observations of these rows. [B] -> [B, ...]"""
        return self.replay.observations(index)[:, 0]  # [B, ...]

    def get_reward_by_index(self, index: np.ndarray) -> np.ndarray:
        """Returns the raw rewards of these rows. [B] -> [B]"""
        return self.replay.rewards(index)  # [B]
