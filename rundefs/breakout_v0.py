"""Breakout-v0 by double DQN with the settings of the original DQN.

Paper: Mnih et al. (2015), Human-level control through deep reinforcement learning (settings);
van Hasselt, Guez and Silver (2016), Deep reinforcement learning with double Q-learning (targets).

Deviations from Mnih et al.:
1. Double Q-learning: the online network chooses the next action, the target network values it.
2. The protocol `breakout-v0`: sticky actions (0.25), no no-ops, a lost life ends nothing, rewards by
   their sign. The id Breakout-v0 skips 2 to 4 frames; here 4. `--set frame_skip=3-5` draws 3 or 4.
3. Epsilon falls over 1M frames from the run's first step, as the paper's text has it; DeepMind's
   code counts 1M steps after the fill.
4. Four games are stepped together (`num_envs=4`), one decision in each between two updates.
5. An evaluation plays whole games within 27,000 steps, however many these are.

Expected: a mean return above 100 in the tens of millions of frames, above 300 by 200M.
"""

import math
from typing import Literal

from dqn_lab.assembly import Assembly
from dqn_lab.run import Run


def run(
    *,
    seed: int = 0,
    game: str = "breakout",
    protocol: str = "breakout-v0",
    num_envs: int = 4,
    frame_skip: int | tuple[int, int] | None = None,
    reward_transform: Literal["sign", "clip", "none"] | None = None,
    replay_capacity_steps: int = 1_000_000,
    replay_min_steps: int = 50_000,
    replay_compression: Literal["lz4", "none"] = "lz4",
    updates_per_epoch: int = 50_000,  # 200k steps = 800k frames
    train_period_steps: int = 4,
    target_period_updates: int | None = 10_000,
    batch_size: int = 32,
    n_step: int = 1,
    gamma: float = 0.99,
    double: bool = True,
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
    epsilon_begin_steps: int = 0,
    epsilon_steps: int = 1_000_000 // 4,  # 1M frames / 4 frames a step
    evaluation_epsilon: float | None = None,  # the protocol's 0.05
    evaluation_period_epochs: int = 1,
    evaluation_episodes: int | float = math.inf,
    evaluation_max_steps: int | float = 108_000 // 4,  # a game at its cap of 108,000 frames fits
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
    total_updates: int | float = 250 * 50_000,  # 50M steps after the fill = 200M frames
) -> Run:
    """Double DQN on the Nature network."""
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
