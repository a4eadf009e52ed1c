"""Measures Stable-Baselines3's DQN on Breakout, in a Python that has it; prints one JSON object.

Actions stored per second, in windows between two looks at the clock, after the fill and the first 50 updates: as
`dqn-benchmark --what train` counts them. The work is that of `benchmark_against_sb3.py`'s settings for `breakout_v0`:
batch 32, one update every 4 steps over all environments, a tenth of the actions random, sticky actions (0.25), frame
skip 4 with the maximum of two frames, 84 x 84 gray, a stack of 4, rewards by their sign, whole games. SB3's wrappers
also press FIRE after a reset.
"""

import argparse
import json
import statistics
import time

import ale_py
import gymnasium
import stable_baselines3
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack

WARM_UP_UPDATES = 50
TRAIN_PERIOD_STEPS = 4
EPSILON = 0.1


class Meter(BaseCallback):
    """Reads the clock once the updates have begun, and ends the training after the last window."""

    def __init__(self, window_seconds: float, windows: int) -> None:
        super().__init__()
        self.rates: list[float] = []
        self._window_seconds, self._windows = window_seconds, windows
        self._begin: tuple[float, int] | None = None

    def _on_step(self) -> bool:
        if self.model._n_updates < WARM_UP_UPDATES:
            return True
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter(), self.num_timesteps
        self._begin = self._begin or now
        seconds, steps = now[0] - self._begin[0], now[1] - self._begin[1]
        if seconds >= self._window_seconds:
            self.rates.append(steps / seconds)
            self._begin = now
        return len(self.rates) < self._windows


def make(num_envs: int, capacity: int, fill: int) -> DQN:
    """Returns SB3's DQN with its default network on Breakout."""
    gymnasium.register_envs(ale_py)
    environments = make_atari_env(
        "ALE/Breakout-v5",
        n_envs=num_envs,
        seed=0,
        env_kwargs={"frameskip": 1, "repeat_action_probability": 0.25, "full_action_space": False},
        wrapper_kwargs={"noop_max": 0, "frame_skip": 4, "terminal_on_life_loss": False, "clip_reward": True},
    )
    return DQN(
        "CnnPolicy",
        VecFrameStack(environments, 4),
        learning_rate=1e-4,
        buffer_size=capacity,
        learning_starts=fill,
        batch_size=32,
        train_freq=max(TRAIN_PERIOD_STEPS // num_envs, 1),  # decisions
        gradient_steps=max(num_envs // TRAIN_PERIOD_STEPS, 1),
        target_update_interval=10_000 * TRAIN_PERIOD_STEPS,
        exploration_initial_eps=EPSILON,
        exploration_final_eps=EPSILON,
        seed=0,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-envs", type=int, choices=(1, 2, 4, 8, 16), default=4)
    parser.add_argument("--window-seconds", type=float, default=4.0)
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--capacity", type=int, default=20_000, help="steps")
    parser.add_argument("--fill", type=int, default=4_000, help="steps")
    given = parser.parse_args()

    agent = make(given.num_envs, given.capacity, given.fill)
    meter = Meter(given.window_seconds, given.windows)
    agent.learn(total_timesteps=10**9, callback=meter)
    figures = {
        "steps_per_second": statistics.median(meter.rates),
        "steps_per_second_spread": [min(meter.rates), max(meter.rates)],
        "num_envs": given.num_envs,
        "device": str(agent.device),
        "versions": {"stable_baselines3": stable_baselines3.__version__, "torch": torch.__version__},
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
