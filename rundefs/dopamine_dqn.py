"""DQN with the settings of Dopamine's JAX agent, to hold the library against Dopamine's published curves.

Paper: Mnih et al. (2015), Human-level control through deep reinforcement learning; settings: Castro et al. (2018),
Dopamine: a research framework for deep reinforcement learning. The curves are those of google/dopamine's baselines,
"DQN" on the Nature network: Adam and the squared error, sticky actions, lives end nothing.

Deviations:
1. Where Dopamine begins a million frames anew it resets the game; here games go on over an epoch's end.
2. Kernels and biases begin in +-1/sqrt(fan_in), as in Torch; Dopamine's kernels after Glorot, its biases with 0.
3. Keras's Adam adds its epsilon before the bias is corrected: at update t it counts 1 / sqrt(1 - 0.999^t) times as
   much, 1.26 times at t = 1,000, 1.07 times at 2,000.
4. An evaluation is 10 whole games every million frames; Dopamine's is 125,000 steps (`--set evaluation_episodes=inf
   --set evaluation_max_steps=125_000`), and no published curve shows it.

An epoch is 10,000 steps, so that 1M frames (250,000 steps) are a whole number of them, the fill counted.

Expected, mean return of the training games that ended within the 1st, 2nd, 3rd million frames: Breakout 1.8, 7.1, 14.2;
Pong -20.2, -18.4, -16.1; after 50M frames 99.6 and 18.2, after 200M 199.4 and 19.5.
"""

import math
from typing import Literal

from dqn_lab.assembly import Assembly
from dqn_lab.run import Run


def run(
    *,
    seed: int = 0,
    game: str = "breakout",
    protocol: str = "dopamine",
    num_envs: int = 1,
    frame_skip: int | tuple[int, int] | None = None,
    reward_transform: Literal["sign", "clip", "none"] | None = None,
    replay_capacity_steps: int = 1_000_000,
    replay_min_steps: int = 20_000,
    replay_compression: Literal["lz4", "none"] = "lz4",
    updates_per_epoch: int = 10_000 // 4,  # 10k steps / 4 steps an update
    train_period_steps: int = 4,
    target_period_updates: int | None = 8_000 // 4,  # 8k steps / 4 steps an update
    batch_size: int = 32,
    n_step: int = 1,
    gamma: float = 0.99,
    double: bool = False,
    dueling: bool = False,
    initializer: str = "torch",
    loss: str = "mse",
    optimizer: str = "adam",
    optimizer_epsilon: float | None = 1.5e-4,
    learning_rate: float = 6.25e-5,
    gradient_clip: float | None = None,
    precision: str = "float32",
    jit_compile: bool | None = None,
    device: str = "auto",
    feeding: str = "auto",
    epsilon_start: float = 1.0,
    epsilon_end: float | None = None,  # the protocol's 0.01
    epsilon_begin_steps: int = 20_000,  # the fill
    epsilon_steps: int = 250_000,
    evaluation_epsilon: float | None = None,  # the protocol's 0.001
    evaluation_period_epochs: int = 25,  # 1M frames = 250k steps = 25 epochs of 10k
    evaluation_episodes: int | float = 10,
    evaluation_max_steps: int | float = math.inf,
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
    total_steps: int | float = 50_000_000,  # 200M frames
    total_updates: int | float = math.inf,
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
