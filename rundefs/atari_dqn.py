"""DQN on any Atari game, under the protocol and with the settings of the Nature paper.

Paper: Mnih et al. (2015), Human-level control through deep reinforcement learning. Where its text
and DeepMind's code (google-deepmind/dqn) differ, this follows the code:
- the target network is copied every 10,000 steps (the text: updates, 4 times as long);
- epsilon falls over 1M steps after the fill (the text: frames);
- an evaluation is 125,000 steps every 250,000 (the text: 30 games).

Deviations:
1. Four games are stepped together (`num_envs=4`), one decision in each between two updates.
2. Evaluation games are capped at 18,000 frames each, and those that the steps cut off don't count.

Expected, 50M steps: Pong 18.9, Breakout 401, Space Invaders 1976, Seaquest 5286 (the paper's table 2).
"""

import math
from typing import Literal

from dqn_lab.assembly import Assembly
from dqn_lab.run import Run


def run(
    *,
    seed: int = 0,
    game: str = "pong",
    protocol: str = "nature-2015",
    num_envs: int = 4,
    frame_skip: int | tuple[int, int] | None = None,
    reward_transform: Literal["sign", "clip", "none"] | None = None,
    replay_capacity_steps: int = 1_000_000,
    replay_min_steps: int = 50_000,
    replay_compression: Literal["lz4", "none"] = "lz4",
    updates_per_epoch: int = 250_000 // 4,  # 250k steps / 4 steps an update
    train_period_steps: int = 4,
    target_period_updates: int | None = 10_000 // 4,  # 10k steps / 4 steps an update
    batch_size: int = 32,
    n_step: int = 1,
    gamma: float = 0.99,
    double: bool = False,
    dueling: bool = False,
    initializer: str = "torch",
    loss: str = "huber",
    optimizer: str = "rmsprop_centered",
    optimizer_epsilon: float | None = None,
    learning_rate: float = 2.5e-4,
    gradient_clip: float | None = None,
    precision: str = "float32",
    jit_compile: bool | None = None,
    device: str = "auto",
    feeding: str = "auto",
    epsilon_start: float = 1.0,
    epsilon_end: float | None = None,  # the protocol's 0.1
    epsilon_begin_steps: int = 50_000,  # the fill
    epsilon_steps: int = 1_000_000,
    evaluation_epsilon: float | None = None,  # the protocol's 0.05
    evaluation_period_epochs: int = 1,
    evaluation_episodes: int | float = math.inf,
    evaluation_max_steps: int | float = 125_000,
    initial_states: int = 1000,
    initial_states_dir: str | None = "runs/initial_states",
    media_period_evaluations: int = 10,
    log_period_updates: int = 1000,
    log_weights: bool = False,
    checkpoint_period_steps: int | None = 500_000,
    checkpoint_period_minutes: float | None = 10.0,
    keep: int = 2,
    keep_weights: Literal["none", "all"] = "none",
    initial_weights: str | None = None,
    total_steps: int | float = math.inf,
    total_updates: int | float = 200 * 62_500,  # 50M steps after the fill = 200M frames
) -> Run:
    """DQN on the Nature network."""
    assembly = Assembly(locals())
    from dqn_lab.models.networks import nature

    sequence = assembly.atari_sequence()
    network = nature(
        sequence.state_shape,
        sequence.num_actions,
        dueling=dueling,
        initializer=initializer,
        seed=seed,
        dtype=precision,
    )
    return assembly.run(sequence, network)
