"""An environment whose answers are checked, so that what is wrong with one is said in a line."""

import numbers

import gymnasium
import numpy as np


class CheckedEnvironment(gymnasium.Wrapper):
    """Says in one line what an environment of the old gym API does wrong, and keeps its final observations."""

    def reset(self, *, seed=None, options=None):
        try:
            result = self.env.reset(seed=seed, options=options)
        except TypeError as error:
            if "seed" in str(error) or "options" in str(error):
                raise _old_api(self, "its reset() takes no seed and options") from error
            raise
        except ValueError as error:
            if _is_unpacked_by_gymnasium(error):
                raise _old_api(self, "its reset() returned no (observation, info)") from None
            raise
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
            raise _old_api(self, "its reset() returned no (observation, info)")
        self._check_observation(result[0])
        return result

    def step(self, action):
        try:
            result = self.env.step(action)
        except ValueError as error:
            if _is_unpacked_by_gymnasium(error):
                raise _old_api(self, "its step() returned another number of values") from None
            raise
        if not (isinstance(result, tuple) and len(result) == 5):
            count = len(result) if isinstance(result, tuple) else 1
            raise _old_api(self, f"its step() returned {count} value(s)")
        observation, reward, terminated, truncated, info = result
        self._check_observation(observation)
        self._check_flags(terminated, truncated, info)
        if terminated or truncated:  # an environment may write its next first observation into the same array
            observation = np.array(observation)
        return observation, self._as_number(reward), terminated, truncated, info

    def _check_observation(self, observation) -> None:
        shape = np.shape(observation)
        if observation is None or shape != self.observation_space.shape:
            raise ValueError(
                f"{environment_name(self)}: observations must have the shape of their space, "
                f"{self.observation_space.shape}. Received: {'None' if observation is None else f'shape={shape}'}"
            )

    def _check_flags(self, terminated, truncated, info) -> None:
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(flag, bool | np.bool_ | int):
                raise TypeError(f"{environment_name(self)}: `{name}` must be True or False. Received: {flag!r}")
        if not isinstance(info, dict):
            raise TypeError(f"{environment_name(self)}: `info` must be a dict. Received: info={info!r}")

    def _as_number(self, reward) -> float:
        if isinstance(reward, numbers.Real):
            return reward
        array = np.asarray(reward)  # an array of one number is a common slip, and clear
        if array.size != 1 or array.dtype.kind not in "biuf":
            raise TypeError(f"{environment_name(self)}: a reward must be one real number. Received: reward={reward!r}")
        return array.item()


def environment_name(environment) -> str:
    """Returns the registered id of an environment, or its class's name."""
    spec = getattr(environment, "spec", None)
    return spec.id if spec is not None else type(environment.unwrapped).__name__


def _old_api(environment, what: str) -> TypeError:
    return TypeError(
        f"{environment_name(environment)}: {what}; this is the old gym API. A gymnasium environment is needed: "
        "reset(seed, options) returns (observation, info), step(action) returns 5 values."
    )


def _is_unpacked_by_gymnasium(error: ValueError) -> bool:
    """Tells whether one of gymnasium's own wrappers was given more or fewer values than it needs."""
    traceback = error.__traceback__
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    module = traceback.tb_frame.f_globals.get("__name__", "")
    return "values to unpack" in str(error) and module.startswith("gymnasium.")
