"""Small fake environments whose every answer can be worked out by hand."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class Named(gymnasium.Env):
    """Episodes of fixed lengths, whose observations are named: 100 * episode + steps in the episode.

    The first episode is number 0, so that 203 is the observation after the third step of the third episode. The same
    array is written again and again, as some environments do.

    Args:
        lengths: of the episodes, the last one for all further ones; None = endless.
        end: "terminated" or "truncated".
        reward: a number, or a callable of the step's number in its episode (1 is the first).
        num_actions: number of actions.
        start: the least action.
    """

    def __init__(self, lengths=(3,), end="terminated", reward=1.0, num_actions=2, start=0):
        self.observation_space = Box(0, np.inf, (1,), np.float32)
        self.action_space = Discrete(num_actions, start=start)
        self.lengths, self.end, self.reward = lengths, end, reward
        self.episode, self.elapsed, self.steps = -1, 0, 0
        self.seeds, self.actions, self.closed = [], [], False
        self._observation = np.zeros(1, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.episode, self.elapsed = self.episode + 1, 0
        return self._observe(), {}

    def step(self, action):
        self.actions.append(int(action))
        self.steps, self.elapsed = self.steps + 1, self.elapsed + 1
        ended = self.elapsed == self.length()
        reward = self.reward(self.elapsed) if callable(self.reward) else self.reward
        return self._observe(), reward, ended and self.end == "terminated", ended and self.end == "truncated", {}

    def length(self):
        return self.lengths and self.lengths[min(self.episode, len(self.lengths) - 1)]

    def close(self):
        self.closed = True

    def _observe(self):
        self._observation[0] = 100 * self.episode + self.elapsed
        return self._observation


class StepNumber(Named):
    """Its observation is the number of steps it has made in its life, of all episodes; a reset makes none."""

    def __init__(self, lengths=None, num_actions=1_000, **kwargs):
        super().__init__(lengths, num_actions=num_actions, **kwargs)

    def _observe(self):
        self._observation[0] = self.steps
        return self._observation


class Chance(gymnasium.Env):
    """Its course depends on its seed and on every action: a game that shows whether it is played the same again."""

    def __init__(self):
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.normal()
        return self._observe(), {}

    def step(self, action):
        self.place += self.np_random.normal() + 0.1 * (int(action) - 1)
        reward = self.np_random.normal()
        return self._observe(), float(reward), abs(self.place) > 2, bool(self.np_random.random() < 0.05), {}

    def _observe(self):
        return np.array([self.place, self.np_random.random()], np.float32)


class Breaking(Named):
    """Does something wrong at one of its steps: raises, or returns a number that is none."""

    def __init__(self, at=37, what="raise", **kwargs):
        super().__init__(**{"lengths": None, **kwargs})
        self.at, self.what = at, what

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        if self.steps == self.at and self.what == "raise":
            raise RuntimeError("boom")
        if self.steps == self.at and self.what == "reward":
            reward = np.nan
        if self.steps == self.at and self.what == "observation":
            observation = np.full(1, np.nan, np.float32)
        return observation, reward, terminated, truncated, info


class BreakingReset(Named):
    """The first observation of its second episode is not a number."""

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed, options=options)
        return (observation if self.episode == 0 else np.full(1, np.nan, np.float32)), info


class Game(gymnasium.Env):
    """A fake Atari game: frame t of its life is filled with t (modulo 256); lives, and life losses at given steps.

    Args:
        length: steps of a game.
        lives: shown after each step of a game; the last one for all further steps.
        rewards: of the steps of a game; the last one for all further steps.
        frames: raw frames that each step stands for.
        size: side of a frame.
        end: "terminated" or "truncated".
    """

    def __init__(self, length=12, lives=(3,), rewards=(1.0,), frames=4, size=84, num_actions=4, end="terminated"):
        self.observation_space = Box(0, 255, (size, size), np.uint8)
        self.action_space = Discrete(num_actions)
        self.length, self.lives, self.rewards, self.frames, self.end = length, lives, rewards, frames, end
        self.tape, self.shown, self.elapsed = [], 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.tape.append("reset")
        self.elapsed, self.life_count = 0, self.lives[0]
        return self._show(), {"lives": self.life_count, "life_lost": False, "frames": 0}

    def step(self, action):
        self.tape.append(int(action))
        self.elapsed += 1
        before, self.life_count = self.life_count, self._at(self.lives)
        info = {"lives": self.life_count, "life_lost": self.life_count < before, "frames": self.frames}
        ended = self.elapsed == self.length
        terminated, truncated = ended and self.end == "terminated", ended and self.end == "truncated"
        return self._show(), self._at(self.rewards), terminated, truncated, info

    def _at(self, values):
        return values[min(self.elapsed - 1, len(values) - 1)]

    def _show(self):
        self.shown += 1
        return np.full(self.observation_space.shape, self.shown % 256, np.uint8)


class OldReset(gymnasium.Env):
    """An environment of the old gym API: reset() without arguments, and only an observation comes back."""

    observation_space, action_space = Box(-1, 1, (3,), np.float32), Discrete(2)

    def reset(self):
        return np.zeros(3, np.float32)


class OldObservation(OldReset):
    """Takes a seed, and returns the observation alone."""

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32)


class OldStep(OldReset):
    """Resets as gymnasium wants it, and returns 4 values from step()."""

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        return np.zeros(3, np.float32), 0.0, False, {}


class Spaces(gymnasium.Env):
    """Has any spaces."""

    def __init__(self, action_space=None, observation_space=None):
        self.action_space = action_space or Discrete(2)
        self.observation_space = observation_space or Box(-1, 1, (2,), np.float32)


def names(observations):
    """Returns the names that observations of `Named` say, as plain numbers."""
    return np.asarray(observations)[..., 0].astype(int).tolist()
