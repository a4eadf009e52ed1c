"""Catch by the asynchronous methods: learnt on CPU cores, without replay.

Paper: Mnih et al. (2016), Asynchronous methods for deep reinforcement learning.
The game: Osband et al. (2020), Behaviour Suite.

`--set method=` chooses the rule: one_step_q, one_step_sarsa, n_step_q or a3c (advantage actor-critic, the default),
this one also with `--set lstm=true`.

Deviations from the paper:
1. States are single pictures of 10 by 5 cells: two small convolutions of stride 2 and a layer of 64.
2. Two workers, a larger learning rate that stays, short periods, and a small epsilon in RMSProp, as gradients here
   are much smaller than those of its 0.1.
3. A worker copies the shared parameters once for each segment of t_max steps, with one-step rules too, and takes the
   gradient of all its steps in one batch.
4. Temporal differences beyond 1 count linearly (`loss=huber`).

Expected: a mean return of 1.0 (100 games) within 60k steps with every rule (seed 0), in a minute on two cores.
"""

import math
from typing import Literal

from dqn_lab.asynchronous_assembly import AsynchronousAssembly
from dqn_lab.asynchronous_run import AsynchronousRun


def run(
    *,
    seed: int = 0,
    protocol: str = "classic-control",
    num_workers: int = 2,
    t_max: int | None = None,  # 5, with an LSTM 20
    method: str = "a3c",
    lstm: bool = False,
    double: bool = False,
    dueling: bool = False,
    initializer: str = "torch",
    gamma: float = 0.99,
    loss: str = "huber",
    learning_rate: float = 3e-3,
    anneal: bool = False,
    gradient_clip: float | None = 40.0,
    entropy_beta: float = 0.01,
    value_loss_coefficient: float = 0.5,
    rmsprop: Literal["shared", "per_worker", "momentum_sgd"] = "shared",
    rmsprop_epsilon: float = 1e-3,
    rmsprop_start: float = 0.0,
    target_period_steps: int = 500,
    epsilon_start: float = 1.0,
    epsilon_end: float | None = 0.05,
    epsilon_steps: int = 20_000,
    steps_per_epoch: int = 10_000,
    greedy: bool = False,
    evaluation_epsilon: float | None = None,  # the protocol's 0; an actor-critic's is 0
    evaluation_period_epochs: int = 1,
    evaluation_episodes: int | float = 100,
    evaluation_max_steps: int | float = math.inf,
    initial_states: int = 1000,
    initial_states_dir: str | None = "runs/initial_states",
    media_period_evaluations: int = 10,
    log_weights: bool = False,
    checkpoint_period_minutes: float | None = 10.0,
    keep: int = 2,
    keep_weights: Literal["none", "all"] = "none",
    initial_weights: str | None = None,
    total_steps: int | float = 100_000,
) -> AsynchronousRun:
    """An asynchronous method on the small Catch network."""
    assembly = AsynchronousAssembly(locals())
    from dqn_lab.environments.catch import Catch
    from dqn_lab.models.networks import catch

    sequence = assembly.environment_sequence(Catch)
    network = catch(
        sequence.state_shape,
        sequence.num_actions,
        dueling=dueling,
        initializer=initializer,
        actor_critic=assembly.actor_critic,
        lstm_units=64 if lstm else 0,
        seed=seed,
    )
    return assembly.run(sequence, network)
