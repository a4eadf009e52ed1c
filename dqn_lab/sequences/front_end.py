"""The front end of a sequence: what its states and rewards are, as hooks over the rows of its replay."""

import copy

import numpy as np

from dqn_lab.environments.lanes import LaneStep
from dqn_lab.replay.replay import Replay


class FrontEnd:
    """What a subclass of a sequence says, all over arrays of row indices.

    Attributes:
        replay: where the hooks read from.
        num_envs: lanes in it; the row before a row in time is `index - num_envs`.
    """

    replay: Replay
    num_envs: int

    def get_states_start(self) -> int:
        """Returns how many consecutive stored steps a state spans."""
        raise NotImplementedError(f"{type(self).__name__} must define get_states_start().")

    def get_feature_by_index(self, index: np.ndarray) -> np.ndarray:
        """Returns the states at these rows. [B] -> [B, ...]"""
        raise NotImplementedError(f"{type(self).__name__} must define get_feature_by_index(index).")

    def get_reward_by_index(self, index: np.ndarray) -> np.ndarray:
        """Returns the rewards that the learner sees for the actions taken in these rows. [B] -> [B]"""
        raise NotImplementedError(f"{type(self).__name__} must define get_reward_by_index(index).")

    def get_terminal(self, step: LaneStep) -> np.ndarray:
        """Tells which lanes' steps are terminal for the learner: the end of the game. -> [N] bool"""
        return step.terminated

    def ask_states(self, index: np.ndarray) -> np.ndarray:
        """Asks the feature hook. [B] -> [B, ...]

        Raises:
            ValueError: it returned no array of one state per row.
        """
        return self._asked("get_feature_by_index", index, "states [B, ...]", lambda shape: shape[:1] == index.shape)

    def ask_rewards(self, index: np.ndarray) -> np.ndarray:
        """Asks the reward hook. [B] -> [B]

        Raises:
            ValueError: it returned no array of one number per row.
        """
        return self._asked("get_reward_by_index", index, "one number per row, [B]", lambda shape: shape == index.shape)

    def _asked(self, hook: str, index: np.ndarray, wanted: str, fits) -> np.ndarray:
        answer = getattr(self, hook)(index)
        shape = getattr(answer, "shape", None)
        if not isinstance(answer, np.ndarray) or answer.dtype.kind not in "biuf" or not fits(shape):
            received = type(answer).__name__ if shape is None else f"shape {shape}, dtype {answer.dtype}"
            raise ValueError(
                f"{type(self).__name__}.{hook} must return a numeric array of {wanted}, for B = {len(index)} rows. "
                f"Received: {received}"
            )
        return answer

    def reading_from(self, replay: Replay) -> "FrontEnd":
        """Returns a copy, with all attributes that the hooks may use, that reads from another replay."""
        twin = copy.copy(self)
        twin.replay, twin.num_envs = replay, replay.ring.num_envs
        return twin
