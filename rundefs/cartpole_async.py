"""CartPole-v1 by the asynchronous methods: learnt on CPU cores, without replay.

Paper: Mnih et al. (2016), Asynchronous methods for deep reinforcement learning.

`--set method=` chooses the rule: one_step_q, one_step_sarsa, n_step_q or a3c (advantage actor-critic, the default),
this one also with `--set lstm=true`.

Deviations from the paper:
1. States are four numbers: two hidden layers of 64 take the place of the convolutions.
2. Two workers, segments of 20 steps, short periods, a learning rate that falls to 0 in 300k steps, and next to no
   epsilon in RMSProp, as gradients here are much smaller than those of its 0.1. The rate begins at 2e-3: with 3e-4
   300k steps are too few.
3. The square of all temporal differences (`loss=mse`). Only one step in a hundred is a fall, so if its large difference
   counted linearly the one-step rules would hardly see it, and value all states alike.
4. Three actions of ten stay random in the Q methods. A good policy hardly ever falls, and without replay what isn't
   seen any more is forgotten: with 0.05 returns went up and down to the end.
5. A worker copies the shared parameters once for each segment of t_max steps, with one-step rules too, and takes the
   gradient of all its steps in one batch.
6. The time limit of 500 steps truncates: it is bootstrapped past, not taken for an end.

Expected: evaluations (100 games) above 400 within 50k to 225k steps, and 500 at the end with the Q methods, 470 or more
with a3c, on each of three seeds, in a minute and a quarter on two cores.
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
    t_max: int | None = 20,
    method: str = "a3c",
    lstm: bool = False,
    double: bool = False,
    dueling: bool = False,
    initializer: str = "torch",
    hidden: tuple[int, ...] = (64, 64),
    gamma: float = 0.99,
    loss: str = "mse",
    learning_rate: float = 2e-3,
    anneal: bool = True,
    gradient_clip: float | None = 40.0,
    entropy_beta: float = 0.01,
    value_loss_coefficient: float = 0.5,
    rmsprop: Literal["shared", "per_worker", "momentum_sgd"] = "shared",
    rmsprop_epsilon: float = 1e-5,
    rmsprop_start: float = 0.0,
    target_period_steps: int = 500,
    epsilon_start: float = 1.0,
    epsilon_end: float | None = 0.3,
    epsilon_steps: int = 50_000,
    steps_per_epoch: int = 25_000,
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
    total_steps: int | float = 300_000,
) -> AsynchronousRun:
    """An asynchronous method on two hidden layers.

    Args:
        hidden: width of each hidden layer [units]
    """
    assembly = AsynchronousAssembly(locals())
    import gymnasium

    from dqn_lab.models.networks import mlp

    sequence = assembly.environment_sequence(lambda: gymnasium.make("CartPole-v1"))
    network = mlp(
        sequence.state_shape,
        sequence.num_actions,
        hidden=hidden,
        dueling=dueling,
        initializer=initializer,
        actor_critic=assembly.actor_critic,
        lstm_units=64 if lstm else 0,
        seed=seed,
    )
    return assembly.run(sequence, network)
