"""The border between a sequence and its environments: spaces, actions, resets, and what the steps bring."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from dqn_lab.arguments import require_integer
from dqn_lab.environments.checked_environment import CheckedEnvironment, environment_name
from dqn_lab.environments.environment_state import (
    check_environment_state,
    get_environment_state,
    require_keys,
    set_environment_state,
    why_inexact,
)


@dataclass(frozen=True)
class LaneStep:
    """What one decision in every lane brought, lane by lane; the observations are valid until the next step.

    Attributes:
        observation: what the actions led to, an ended episode's final observation too, [N, ...].
        reward: raw rewards, [N] float64.
        terminated: the game ended, [N] bool.
        truncated: the episode was cut short, [N] bool.
        life_lost: a life was lost, where the environment says so, [N] bool.
        frames: emulator frames that each decision stands for, [N] int64.
        acted: False where the lane ignored its action because it only reset itself, [N] bool.
        begun: lanes that have already begun their next episode, [N] bool.
        first_observation: those lanes' first observations; the other rows mean nothing, [N, ...].
    """

    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    life_lost: np.ndarray
    frames: np.ndarray
    acted: np.ndarray
    begun: np.ndarray
    first_observation: np.ndarray


class Lanes:
    """The environments of a sequence, stepped together through a gymnasium vector environment.

    Actions are 0..n-1 on this side of the border; a space `Discrete(n, start=s)` gets them shifted by s.

    Args:
        make_environment: returns a new `gymnasium.Env`, or a `gymnasium.vector.VectorEnv`, whose own lanes are then
            used, in its own autoreset mode. (In SAME_STEP it may keep final observations by reference: then its lanes
            must not write their next first observation into the same array.)
        num_envs: number of lanes; None is 1, or as many as a vector environment has.
        autoreset: for environments that are not vectorised yet: SAME_STEP for training, DISABLED where the caller
            resets ended lanes with seeds of their own.

    Raises:
        TypeError: what `make_environment` returns is no gymnasium environment, or speaks the old gym API.
        ValueError: a space, the number of lanes or the autoreset mode cannot be used.
    """

    def __init__(
        self,
        make_environment: Callable[[], gymnasium.Env | VectorEnv],
        num_envs: int | None,
        autoreset: AutoresetMode = AutoresetMode.SAME_STEP,
    ) -> None:
        if not callable(make_environment):
            raise TypeError(
                "make_environment must be a callable without arguments that returns a new environment. "
                f"Received: make_environment={make_environment!r}"
            )
        if num_envs is not None:
            num_envs = require_integer("num_envs", num_envs, least=1)
        first = make_environment()
        self.is_users_vector = isinstance(first, VectorEnv)
        if self.is_users_vector:
            self._vector = _check_vector(first, num_envs)
        else:
            self._vector = _join(first, make_environment, num_envs or 1, autoreset)
        self.name = environment_name(first)
        self.num_envs = self._vector.num_envs
        self.autoreset = self._vector.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self.observation_space = self._vector.single_observation_space
        self.num_actions = int(self._vector.single_action_space.n)
        self._start = int(self._vector.single_action_space.start)
        self._ended = np.zeros(self.num_envs, bool)

    @property
    def resets_itself(self) -> bool:
        """Whether ended lanes begin their next episode without being told."""
        return self.autoreset != AutoresetMode.DISABLED

    @property
    def drops_rows(self) -> bool:
        """Whether an ended lane spends a step on its reset, in which its action is ignored."""
        return self.autoreset == AutoresetMode.NEXT_STEP

    def reset(self, seeds: list[int | None] | None = None, lanes: np.ndarray | None = None) -> np.ndarray:
        """Begins a new episode in the lanes of a mask (all lanes when None).

        Args:
            seeds: a seed for every lane, or None to go on; a user's vector environment seeds its lanes itself, from
                the first lane's seed.
            lanes: bool mask, [N]; only for lanes that do not reset themselves.

        Returns:
            Observations of all lanes, [N, ...]; those of lanes outside the mask are their newest.
        """
        options = None if lanes is None else {"reset_mask": lanes}
        if self.is_users_vector and isinstance(seeds, list):
            seeds = seeds[0]  # all that every vector environment takes
        observation, _ = self._vector.reset(seed=seeds, options=options)
        self._ended[... if lanes is None else lanes] = False
        return observation

    def step(self, action: np.ndarray) -> LaneStep:
        """Takes one action in every lane.

        Args:
            action: 0..n-1 for every lane, [N].

        Raises:
            ValueError: an action is out of range.
        """
        if np.any((action < 0) | (action >= self.num_actions)):
            raise ValueError(f"Actions must be 0..{self.num_actions - 1}. Received: action={action.tolist()}")
        first_observation, reward, terminated, truncated, info = self._vector.step(action + self._start)
        observation = first_observation
        acted = ~self._ended if self.drops_rows else np.ones_like(terminated)
        ended = terminated | truncated
        begun = ~acted
        if self.autoreset == AutoresetMode.SAME_STEP:
            begun = ended
            if ended.any():
                observation = _with_final_observations(observation, info["final_obs"], ended)
        self._ended = ended
        return LaneStep(
            observation,
            np.array(reward, np.float64),
            np.array(terminated, bool),
            np.array(truncated, bool),
            _lane_info(info, "life_lost", ended, False),
            _lane_info(info, "frames", ended, 1),
            acted,
            begun,
            first_observation,
        )

    def why_inexact(self) -> str | None:
        """Returns why lanes can't go on exactly from a state, in a few words, or None; see `environment_state`."""
        return next(filter(None, map(why_inexact, self.environments())), None)

    def get_state(self) -> dict[str, Any]:
        """Returns all that the next steps depend on, as far as the environments show it, of what files can hold.

        Raises:
            TypeError: an environment's `get_state` returned something else.
            ValueError: the lanes were never reset.
        """
        state = {
            "ended": self._ended.copy(),
            "environments": [get_environment_state(environment) for environment in self.environments()],
        }
        if self.is_users_vector:
            return state
        if self._vector._env_obs[0] is None:
            raise ValueError(f"{self.name}: get_state() needs running lanes: call reset() first. Received: no episode")
        return state | {"observation": self._vector._observations.copy()}  # [N, ...]

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from a state of `get_state`, in lanes that may never have been reset.

        Raises:
            ValueError: as `check_state`.
        """
        self.check_state(state)
        for environment, saved in zip(self.environments(), state["environments"], strict=True):
            set_environment_state(environment, saved)
        if not self.is_users_vector:
            self._vector._observations[...] = state["observation"]
            self._vector._env_obs = list(state["observation"].copy())
            self._vector._autoreset_envs = state["ended"].copy()
        self._ended = state["ended"].copy()

    def check_state(self, state: dict[str, Any]) -> None:
        """Refuses what `set_state` cannot take.

        Raises:
            ValueError: it is another kind of lanes' state, or none, or the lanes are inexact.
        """
        if reason := self.why_inexact():
            raise ValueError(f"{self.name}: lanes go on from a state exactly or not at all. Received: {reason}")
        environments = self.environments()
        require_keys(self.name, state, ("ended", "environments", *(() if self.is_users_vector else ("observation",))))
        _check_array(self.name, "ended", state["ended"], self._ended)
        if not self.is_users_vector:
            _check_array(self.name, "observation", state["observation"], self._vector._observations)
        count = len(state["environments"]) if isinstance(state["environments"], list) else None
        if count != len(environments):
            raise ValueError(
                f"{self.name}: the state must be of {len(environments)} environments. Received: environments={count}"
            )
        for environment, saved in zip(environments, state["environments"], strict=True):
            check_environment_state(environment, saved)

    def environments(self) -> list[gymnasium.Env | VectorEnv]:
        """Returns what was made, one a lane or a user's vector environment; `CheckedEnvironment` has no state."""
        return [self._vector] if self.is_users_vector else [checked.env for checked in self._vector.envs]

    def close(self) -> None:
        """Closes the environments."""
        self._vector.close()

    def shares_environments(self, other: "Lanes") -> bool:
        """Tells whether an environment here is one of the other lanes' too, so that each would disturb the other."""
        return not self._identities().isdisjoint(other._identities())

    def _identities(self) -> set[int]:
        return {id(each.unwrapped) for each in getattr(self._vector.unwrapped, "envs", [self._vector])}


def _join(first, make_environment, num_envs: int, autoreset: AutoresetMode) -> SyncVectorEnv:
    _check_environment(first)
    _check_spaces(environment_name(first), first.action_space, first.observation_space)
    made = [first, *(_check_environment(make_environment()) for _ in range(num_envs - 1))]
    if len({id(environment.unwrapped) for environment in made}) < num_envs:
        raise ValueError(
            "make_environment must return a new environment at each call; it returned the same one again. "
            f"Received: make_environment={make_environment!r}"
        )
    makers = [partial(CheckedEnvironment, environment) for environment in made]
    try:
        return SyncVectorEnv(makers, autoreset_mode=autoreset, copy=False)
    except RuntimeError as error:
        raise ValueError(f"All lanes must have the same spaces. Received: {error}") from error


def _check_environment(environment) -> gymnasium.Env:
    if isinstance(environment, gymnasium.Env):
        return environment
    raise TypeError(
        "make_environment must return a gymnasium environment whose reset() returns (observation, info) and whose "
        f"step() returns 5 values. Received: an object of {type(environment).__module__}."
        f"{type(environment).__qualname__}"
    )


def _check_spaces(name: str, action_space, observation_space) -> None:
    if not isinstance(action_space, gymnasium.spaces.Discrete):
        raise ValueError(
            f"{name}: deep Q-learning needs a Discrete action space. Received: action_space={action_space}"
        )
    if not isinstance(observation_space, gymnasium.spaces.Box):
        raise ValueError(
            f"{name}: observations must be of a Box space. Received: observation_space={observation_space}"
        )


def _check_vector(vector: VectorEnv, num_envs: int | None) -> VectorEnv:
    name = environment_name(vector)
    _check_spaces(name, vector.single_action_space, vector.single_observation_space)
    if num_envs not in (None, vector.num_envs):
        raise ValueError(f"{name}: the vector environment has {vector.num_envs} lanes. Received: num_envs={num_envs}")
    mode = vector.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    if mode not in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        raise ValueError(f"{name}: a vector environment must reset its lanes itself. Received: autoreset_mode={mode}")
    return vector


def _check_array(name: str, key: str, saved, own: np.ndarray) -> None:
    given = f"{saved.dtype}{list(saved.shape)}" if isinstance(saved, np.ndarray) else repr(saved)
    expected = f"{own.dtype}{list(own.shape)}"
    if given != expected:
        raise ValueError(f"{name}: a state of these lanes has `{key}` of {expected}. Received: {key}={given}")


def _with_final_observations(observation: np.ndarray, final, ended: np.ndarray) -> np.ndarray:
    """Puts the final observations of ended lanes where SAME_STEP left their next first ones. [N, ...]"""
    observation = observation.copy()
    for lane in np.flatnonzero(ended):  # as few as there are ends: gymnasium keeps them as objects
        observation[lane] = final[lane]
    return observation


def _lane_info(info: dict, key: str, ended: np.ndarray, default: bool | int) -> np.ndarray:
    """Reads one number a lane from the steps' infos; `default` where there is none. [N]

    Where lanes reset themselves within the step, `info` tells of their reset and `final_info` of the step.
    """
    values = np.full(len(ended), default)  # [N]
    going_on = ~ended if "final_info" in info else np.ones_like(ended)  # [N]
    for source, lanes in ((info, going_on), (info.get("final_info", {}), ended)):
        given = np.asarray(source.get(key, []))
        if given.shape == values.shape and given.dtype.kind in "biuf":  # not another's key of the same name
            present = lanes & source.get(f"_{key}", True)  # [N]
            values[present] = given[present]
    return values
