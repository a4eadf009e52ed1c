"""CartPole-v1 by double DQN: the pole is to be kept up for 500 steps.

Paper: Mnih et al. (2015), Human-level control through deep reinforcement learning;
van Hasselt, Guez and Silver (2016), Deep reinforcement learning with double Q-learning.

Deviations from the papers:
1. States are four numbers: two hidden layers of 256 take the place of the convolutions.
2. Adam, a gradient clip, a small replay and short periods, as is usual for small problems.
3. Targets look 3 steps ahead, and epsilon falls to 0.02: both steady what is learnt.
4. The time limit of 500 steps truncates: it is bootstrapped past, not taken for an end.

Expected: above the threshold of 475 (mean of 100 games) after some 40k steps, in minutes on a CPU.
"""

import math
from typing import Literal

from dqn_lab.assembly import Assembly
from dqn_lab.run import Run


def run(
    *,
    seed: int = 0,
    protocol: str = "classic-control",
    num_envs: int = 1,
    replay_capacity_steps: int = 50_000,
    replay_min_steps: int = 1_000,
    updates_per_epoch: int = 2_000,  # 4k steps
    train_period_steps: int = 2,
    target_period_updates: int | None = 200,
    batch_size: int = 64,
    n_step: int = 3,
    gamma: float = 0.99,
    double: bool = True,
    dueling: bool = False,
    initializer: str = "torch",
    hidden: tuple[int, ...] = (256, 256),
    loss: str = "huber",
    optimizer: str = "adam",
    optimizer_epsilon: float | None = None,
    learning_rate: float = 5e-4,
    gradient_clip: float | None = 10.0,
    precision: str = "float32",
    jit_compile: bool | None = None,
    device: str = "cpu",  # a GPU is slower with networks this small
    feeding: str = "auto",
    epsilon_start: float = 1.0,
    epsilon_end: float = 0.02,
    epsilon_begin_steps: int = 0,
    epsilon_steps: int = 8_000,
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
    total_steps: int | float = 61_000,  # the fill and 15 epochs of 4k
    total_updates: int | float = math.inf,
) -> Run:
    """Double DQN on two hidden layers.

    Args:
        hidden: width of each hidden layer [units]
    """
    assembly = Assembly(locals())
    import gymnasium

    from dqn_lab.models.networks import mlp

    sequence = assembly.environment_sequence(lambda: gymnasium.make("CartPole-v1"))
    network = mlp(
        sequence.state_shape,
        sequence.num_actions,
        hidden=hidden,
        dueling=dueling,
        initializer=initializer,
        seed=seed,
        dtype=precision,
    )
    return assembly.run(sequence, network)
