"""Catch by DQN.

Paper
"""

import math

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
    target_period_updates: int | None = 250,
    batch_size: int = 32,
    n_step: int = 1,
    gamma: float = 0.99,
    double: bool = True,
    dueling: bool = False,
    loss: str = "huber",
    optimizer: str = "adam",
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
    log_period_updates: int = 1000,
    total_steps: int | float = 20_000,
    total_updates: int | float = math.inf,
) -> Run:
    """x"""
    assembly = Assembly(locals())
    from dqn_lab.environments.catch import Catch
    from dqn_lab.models.networks import catch

    sequence = assembly.environment_sequence(Catch)
    network = catch(
        sequence.state_shape,
        sequence.num_actions,
        dueling=dueling,
        seed=seed,
        dtype=precision,
    )
    return assembly.run(sequence, network)
