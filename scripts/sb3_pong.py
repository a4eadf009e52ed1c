"""Trains Stable-Baselines3's DQN on Pong for so many minutes, in a Python that has it; prints one JSON object.

    PATH/python scripts/sb3_pong.py --minutes 30 --seed 0

The settings are those of RL Baselines3 Zoo for Atari (dqn.yml) but for total_timesteps, which only set how long epsilon
falls: over the first million steps. Its score is the mean return of 30 games with 1 to 30 no-ops, epsilon 0.001, raw
rewards, a skip of 4 frames with the maximum of the last two: what `pong_fast` is judged by.
"""

import argparse
import json
import time

import ale_py
import gymnasium
import numpy as np
import stable_baselines3
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack

GAME = "PongNoFrameskip-v4"
GAMES, EPSILON = 30, 0.001


class Clock(BaseCallback):
    """Ends the training after so many minutes."""

    def __init__(self, minutes: float) -> None:
        super().__init__()
        self._end = time.monotonic() + 60 * minutes

    def _on_step(self) -> bool:
        return time.monotonic() < self._end


def make_games(num_envs: int, seed: int, *, training: bool) -> VecFrameStack:
    """Returns Pong as SB3 preprocesses it; clipped rewards and lives that end an episode only in training."""
    wrapper = {"terminal_on_life_loss": training, "clip_reward": training}
    return VecFrameStack(make_atari_env(GAME, n_envs=num_envs, seed=seed, wrapper_kwargs=wrapper), 4)


def train(minutes: float, seed: int) -> DQN:
    """Returns SB3's DQN after so many minutes with the zoo's settings."""
    agent = DQN(
        "CnnPolicy",
        make_games(1, seed, training=True),
        learning_rate=1e-4,
        buffer_size=100_000,
        learning_starts=100_000,
        batch_size=32,
        train_freq=4,
        gradient_steps=1,
        target_update_interval=1_000,
        exploration_fraction=0.1,
        exploration_final_eps=0.01,
        seed=seed,
    )
    agent.learn(total_timesteps=10_000_000, callback=Clock(minutes))
    return agent


def evaluate(agent: DQN, seed: int) -> list[float]:
    """Returns the raw returns of the first games to begin; a lane plays on only while some are missing."""
    games, generator = make_games(GAMES, seed + 1_000, training=False), np.random.default_rng(seed)
    states, returns, ended = games.reset(), np.zeros(GAMES), np.zeros(GAMES, bool)
    while not ended.all():
        actions, _ = agent.predict(states, deterministic=True)
        random = generator.random(GAMES) < EPSILON
        actions = np.where(random, generator.integers(games.action_space.n, size=GAMES), actions)
        states, rewards, dones, _ = games.step(actions)
        returns += np.where(ended, 0.0, rewards)
        ended |= dones
    return returns.tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()

    gymnasium.register_envs(ale_py)
    agent = train(given.minutes, given.seed)
    returns = evaluate(agent, given.seed)
    figures = {
        "mean": float(np.mean(returns)),
        "std": float(np.std(returns)),
        "returns": returns,
        "steps": agent.num_timesteps,
        "updates": agent._n_updates,
        "minutes": given.minutes,
        "seed": given.seed,
        "versions": {"stable_baselines3": stable_baselines3.__version__, "torch": torch.__version__},
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
