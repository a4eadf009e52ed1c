"""Catch by double DQN: the smallest game with pictures, learnt in a minute.

Paper: Mnih et al. (2015), Human-level control through deep reinforcement learning;
van Hasselt, Guez and Silver (2016), Deep reinforcement learning with double Q-learning.
The game: Osband et al. (2020), Behaviour Suite.

Deviations from the papers:
1. States are single pictures of 10 by 5 cells: two small convolutions of stride 2 take the place of three.
2. Adam, a gradient clip, a small replay and short periods, as is usual for small problems.
3. Epsilon falls to 0.05 within 5,000 steps.

Expected: a mean return of 1.0 (every ball caught, 100 games) after 4,500 to 8,500 steps, in a minute on a CPU.
"""

import math
from typing import Literal

from dqn_lab.assembly import Assembly
from dqn_lab.run import Run


def run(
    *,
    seed: int = 0,
    protocol: str = "classic-control",
    num_envs: int = 4,
    replay_capacity_steps: int = 10_000,
    replay_min_steps: int = 500,
    updates_per_epoch: int = 500,
    train_period_steps: int = 4,
    target_period_updates: int | None = 100,
    batch_size: int = 32,
    n_step: int = 1,
    gamma: float = 0.99,
    double: bool = True,
    dueling: bool = False,
    initializer: str = "torch",
    loss: str = "huber",
    optimizer: str = "adam",
    optimizer_epsilon: float | None = None,
    learning_rate: float = 1e-3,
    gradient_clip: float | None = 10.0,
    precision: str = "float32",
    jit_compile: bool | None = None,
    device: str = "cpu",  # a GPU is slower with networks this small
    feeding: str = "auto",
    epsilon_start: float = 1.0,
    epsilon_end: float = 0.05,
    epsilon_begin_steps: int = 0,
    epsilon_steps: int = 5_000,
    evaluation_epsilon: float | None = None,  # the protocol's 0
    evaluation_period_epochs: int = 1,
    evaluation_episodes: int | float = 100,
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
    total_steps: int | float = 500 + 8 * 2_000,  # the fill and 8 epochs of 2k steps
    total_updates: int | float = math.inf,
) -> Run:
    """Double DQN on the small Catch network."""
    assembly = Assembly(locals())
    from dqn_lab.environments.catch import Catch
    from dqn_lab.models.networks import catch

    sequence = assembly.environment_sequence(Catch)
    network = catch(
        sequence.state_shape,
        sequence.num_actions,
        dueling=dueling,
        initializer=initializer,
        seed=seed,
        dtype=precision,
    )
    return assembly.run(sequence, network)
