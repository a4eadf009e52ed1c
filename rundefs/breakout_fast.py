"""Breakout on two CPU cores in an hour: a small dueling double DQN with three-step returns.

Paper: Mnih et al. (2015), Human-level control through deep reinforcement learning; the network is that of Mnih et al.
(2013), Playing Atari with deep reinforcement learning; double: van Hasselt, Guez and Silver (2016); dueling: Wang et
al. (2016); n-step returns: Hessel et al. (2018), Rainbow.

Deviations from the first: those of `pong_fast.py`, and of its settings
1. A replay of 300,000 steps, compressed.
2. Epsilon falls to 0.02 within 150,000 steps.
3. n = 3, in float32.

Expected: not measured yet; a game of Breakout takes longer to learn than one of Pong.
"""

import math
from typing import Literal

from dqn_lab.assembly import Assembly
from dqn_lab.run import Run


def run(
    *,
    seed: int = 0,
    game: str = "breakout",
    protocol: str = "nature-2015",
    num_envs: int = 8,
    frame_skip: int | tuple[int, int] | None = None,
    reward_transform: Literal["sign", "clip", "none"] | None = None,
    replay_capacity_steps: int = 300_000,
    replay_min_steps: int = 5_000,
    replay_compression: Literal["lz4", "none"] = "lz4",
    updates_per_epoch: int = 10_000 // 4,  # 10k steps / 4 steps an update
    train_period_steps: int = 4,
    target_period_updates: int | None = 1_000,
    batch_size: int = 64,
    n_step: int = 3,
    gamma: float = 0.99,
    double: bool = True,
    dueling: bool = True,
    initializer: str = "he",
    loss: str = "huber",
    optimizer: str = "adam",
    optimizer_epsilon: float | None = 1e-5,
    learning_rate: float = 2.5e-4,
    gradient_clip: float | None = 10.0,
    precision: str = "float32",
    jit_compile: bool | None = None,
    device: str = "auto",
    feeding: str = "auto",
    epsilon_start: float = 1.0,
    epsilon_end: float | None = 0.02,
    epsilon_begin_steps: int = 0,
    epsilon_steps: int = 150_000,
    evaluation_epsilon: float | None = 0.001,
    evaluation_period_epochs: int = 4,  # 40k steps
    evaluation_episodes: int | float = 10,
    evaluation_max_steps: int | float = math.inf,
    initial_states: int = 200,
    initial_states_dir: str | None = "runs/initial_states",
    media_period_evaluations: int = 10,
    log_period_updates: int = 500,
    log_weights: bool = False,
    checkpoint_period_steps: int | None = 500_000,
    checkpoint_period_minutes: float | None = 10.0,
    keep: int = 2,
    keep_weights: Literal["none", "all"] = "none",
    initial_weights: str | None = None,
    total_steps: int | float = 600_000,  # 2.4M frames
    total_updates: int | float = math.inf,
) -> Run:
    """Dueling double DQN on the network of 2013."""
    assembly = Assembly(locals())
    from dqn_lab.models.networks import nips

    sequence = assembly.atari_sequence()
    network = nips(
        sequence.state_shape,
        sequence.num_actions,
        dueling=dueling,
        initializer=initializer,
        seed=seed,
        dtype=precision,
    )
    return assembly.run(sequence, network)
