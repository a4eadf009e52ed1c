"""The running environments of a sequence, written into its replay as they go."""

from collections.abc import Callable

import numpy as np

from dqn_lab.environments.lanes import Lanes, LaneStep
from dqn_lab.replay.replay import Replay

_COUNTERS = ("steps", "frames", "episodes", "episode_return_sum", "episode_length_sum")
_LANE_STATE = (
    "lane_return",
    "lane_length",
    "action",
    "reward",
    "terminal",
    "episode_end",
    "truncation",
    "acted",
    "begun",
    "decided",
)


class Simulation:
    """Steps the lanes, stores every row, and keeps the counts.

    Args:
        lanes: the environments.
        replay: where their rows go.
        get_terminal: which steps are terminal for the learner, `LaneStep -> [N] bool`.

    Attributes:
        has_begun: the environments stand where the newest rows say.
        steps: actions taken, all lanes together.
        frames: emulator frames that they stand for.
        episodes: games that have ended.
        episode_return_sum: raw, undiscounted returns of those games, added up.
        episode_length_sum: their lengths in steps, added up.
        action, reward, terminal, episode_end, truncation: the last decision of each lane, [N].
        begun: lanes that began their next episode by themselves in the last step, [N].
        decided: index of the row in which that decision was taken, [N].
    """

    def __init__(self, lanes: Lanes, replay: Replay, get_terminal: Callable[[LaneStep], np.ndarray]) -> None:
        self.lanes = lanes
        self.replay = replay
        self._get_terminal = get_terminal
        self.has_begun = False
        self._untold: str | None = None  # why an environment could not tell its state
        self.steps = self.frames = self.episodes = self.episode_length_sum = 0
        self.episode_return_sum = 0.0
        count = lanes.num_envs
        self.lane_return, self.reward = np.zeros(count), np.zeros(count)
        self.lane_length, self.action = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.terminal, self.episode_end = np.zeros(count, bool), np.zeros(count, bool)
        self.truncation, self.acted = np.zeros(count, bool), np.zeros(count, bool)
        self.begun, self.decided = np.zeros(count, bool), np.full(count, -1, np.int64)

    def begin(self, seeds=None, lanes: np.ndarray | None = None) -> None:
        """Begins a new episode in the lanes of a mask (all when None); a running one is abandoned.

        Args:
            seeds: as `Lanes.reset` takes them.
            lanes: bool mask, [N].
        """
        self.has_begun = False
        mask = np.ones(self.lanes.num_envs, bool) if lanes is None else lanes
        numbers = np.flatnonzero(mask)
        self.replay.ring.abandon_episodes(numbers)
        observation = self.lanes.reset(seeds, lanes)
        _refuse_unfinite(observation, "a first observation", np.full(len(mask), self.steps))
        self.replay.ring.append(observation[mask], numbers)
        self.lane_return[mask], self.lane_length[mask] = 0.0, 0
        self.begun, self.episode_end = np.zeros_like(mask), self.episode_end & ~mask
        self.has_begun = True

    def step(self, action: np.ndarray, update: int | None = None) -> None:
        """Takes one action in every lane and stores what came of it.

        Args:
            action: [N].
            update: number of the update that it is made for, where there is one.

        Raises:
            FloatingPointError: a reward or an observation is not finite; nothing is stored then.
        """
        self.has_begun = False  # whatever breaks in, an error or Ctrl-C: the environments must begin anew then
        step = self.lanes.step(action)
        self._refuse_unfinite(step, update)
        self._remember(action, step)
        self._store(step)
        self._count(step)
        self.has_begun = True

    def get_state(self) -> dict:
        """Returns copies of counters, the lanes' accumulators, and the environments' state where that is exact."""
        return {
            **{name: getattr(self, name) for name in _COUNTERS},
            **{name: getattr(self, name).copy() for name in _LANE_STATE},
            "lanes": self._lanes_state(),
        }

    def why_inexact(self) -> str | None:
        """Returns why the environments' state is not in `get_state`, in a few words; None where it is."""
        return self._untold or self.lanes.why_inexact()

    def _lanes_state(self) -> dict | None:
        if not self.has_begun or self.why_inexact() is not None:
            return None
        try:
            return self.lanes.get_state()
        except Exception as error:  # an environment's own, whatever it is: all else can be saved
            self._untold = f"the environments' get_state failed ({type(error).__name__}: {error})"
            return None

    def set_state(self, state: dict) -> None:
        """Takes over what `get_state` returned. Environments whose state is not in it must begin anew.

        Raises:
            ValueError: as `check_state` and `set_lanes`.
        """
        self.check_state(state)
        self.set_lanes(state)
        self.set_counts(state)

    def set_counts(self, state: dict) -> None:
        """Takes over counters and accumulators, for environments that `set_lanes` has set."""
        for name in _COUNTERS:
            setattr(self, name, state[name])
        for name in _LANE_STATE:
            setattr(self, name, np.array(state[name]))
        self.has_begun = state["lanes"] is not None

    def set_lanes(self, state: dict) -> None:
        """Takes over the environments alone. What was running in them is abandoned, also if they refuse it.

        Raises:
            ValueError: an environment refuses its state.
        """
        self.has_begun = False
        if state["lanes"] is not None:
            self.lanes.set_state(state["lanes"])

    def check_state(self, state: dict) -> None:
        """Refuses what `set_state` cannot take.

        Raises:
            ValueError: something is missing, of another kind, or of other environments.
        """
        given = state if isinstance(state, dict) else {}
        own = self.get_state() | {"lanes": given.get("lanes")}
        wrong = [name for name, value in own.items() if name not in given or not _is_like(given[name], value)]
        if wrong:
            raise ValueError(f"A simulation's state is what `get_state` returned. Received: no {', '.join(wrong)}")
        if state["lanes"] is not None:
            self.lanes.check_state(state["lanes"])

    def _refuse_unfinite(self, step: LaneStep, update: int | None) -> None:
        number = self.steps + np.cumsum(step.acted)  # [N]
        before = "" if update is None else f", before update {update}"
        _refuse_unfinite(step.reward, "a reward", number, before)
        _refuse_unfinite(step.observation, "an observation", number, before)
        _refuse_unfinite(step.first_observation, "a first observation", number, before)

    def _remember(self, action: np.ndarray, step: LaneStep) -> None:
        self.action, self.reward = np.asarray(action), step.reward
        self.terminal = self._get_terminal(step) & step.acted
        self.episode_end = (step.terminated | step.truncated) & step.acted
        self.truncation = step.truncated & ~step.terminated & step.acted
        self.acted, self.begun = step.acted, step.begun
        self.decided = self.replay.ring.newest_index

    def _store(self, step: LaneStep) -> None:
        ring, acted, begun = self.replay.ring, step.acted, step.begun
        lanes = np.flatnonzero(acted)
        ring.record(
            self.action[acted],
            self.reward[acted],
            self.terminal[acted],
            self.episode_end[acted],
            lanes,
        )
        ring.append(step.observation[acted], lanes)
        if begun.any():
            ring.append(step.first_observation[begun], np.flatnonzero(begun))

    def _count(self, step: LaneStep) -> None:
        self.steps += int(step.acted.sum())
        self.frames += int(step.frames[step.acted].sum())
        self.lane_return += np.where(step.acted, step.reward, 0.0)
        self.lane_length += step.acted
        ended = self.episode_end
        if ended.any():
            self.episodes += int(ended.sum())
            self.episode_return_sum += float(self.lane_return[ended].sum())
            self.episode_length_sum += int(self.lane_length[ended].sum())
            self.lane_return[ended], self.lane_length[ended] = 0.0, 0


def _is_like(given, own) -> bool:
    if isinstance(own, np.ndarray):
        return isinstance(given, np.ndarray) and (given.shape, given.dtype) == (own.shape, own.dtype)
    return isinstance(given, int | float) if isinstance(own, int | float) else True


def _refuse_unfinite(values: np.ndarray, what: str, number: np.ndarray, before: str = "") -> None:
    """Raises FloatingPointError that names the first lane where values, [N, ...], are not finite, and its step, [N]."""
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    lane = int(np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))[0])
    raise FloatingPointError(
        f"The environment returned {what} that is not finite at step {number[lane]}, in lane {lane}{before}. "
        f"Received: {what.split()[-1]}={values[lane].ravel()[~np.isfinite(values[lane].ravel())][0]}"
    )
