"""Any Atari game by the asynchronous methods, on CPU cores and without replay, with the paper's settings.

Paper: Mnih et al. (2016), Asynchronous methods for deep reinforcement learning. Clip, decay and epsilon of RMSProp,
the halved gradient of the state value and the odds of the final epsilons are from its authors' mails, which also name
a t_max of 20 where the paper has 5.

`--set method=` chooses the rule: one_step_q, one_step_sarsa, n_step_q or a3c (advantage actor-critic, the default),
this one also with `--set lstm=true`.

Deviations:
1. Two workers, which any machine has cores for, where the paper has 16: `--set num_workers=16`.
2. A worker copies the shared parameters once for each segment of t_max steps, with one-step rules too, and takes the
   gradient of all its steps in one batch.
3. A state that a time limit cuts off is bootstrapped from, not taken for an end.
4. Temporal differences beyond 1 count linearly (`loss=huber`), as in implementations that reproduced the paper;
   `--set loss=mse` squares all.
5. One learning rate of 7e-4, near the best of those that the paper drew from 1e-4 to 1e-2.
6. An evaluation is 10 games under the protocol's cap.

Scores are told with a final epsilon of none: the workers' epsilons fall to 0.1, 0.01 or 0.5, drawn for each, and an
actor-critic has none. It is evaluated by actions drawn from its policy, and by no other random ones.

Expected: Pong about 20 with a3c; another implementation took 12 hours for it on 11 threads. Two workers came to 19.8 in
two hours with `t_max=20 rmsprop_epsilon=1e-6 rmsprop_start=1 learning_rate=1e-4 anneal=false` (one seed).
"""

import math
from typing import Literal

from dqn_lab.asynchronous_assembly import AsynchronousAssembly
from dqn_lab.asynchronous_run import AsynchronousRun


def run(
    *,
    seed: int = 0,
    game: str = "pong",
    protocol: str = "nature-2015",
    frame_skip: int | tuple[int, int] | None = None,
    reward_transform: Literal["sign", "clip", "none"] | None = None,
    num_workers: int = 2,
    t_max: int | None = None,  # 5, with an LSTM 20
    method: str = "a3c",
    lstm: bool = False,
    double: bool = False,
    dueling: bool = False,
    initializer: str = "torch",
    gamma: float = 0.99,
    loss: str = "huber",
    learning_rate: float = 7e-4,
    anneal: bool = True,
    gradient_clip: float | None = 40.0,
    entropy_beta: float = 0.01,
    value_loss_coefficient: float = 0.5,
    rmsprop: Literal["shared", "per_worker", "momentum_sgd"] = "shared",
    rmsprop_epsilon: float = 0.1,
    rmsprop_start: float = 0.0,
    target_period_steps: int = 10_000,  # 40k frames / 4 frames a step
    epsilon_start: float = 1.0,
    epsilon_end: float | None = None,
    epsilon_steps: int = 1_000_000,  # 4M frames / 4 frames a step
    steps_per_epoch: int = 250_000,  # 1M frames / 4 frames a step
    greedy: bool = False,
    evaluation_epsilon: float | None = None,  # the protocol's 0.05; an actor-critic's is 0
    evaluation_period_epochs: int = 1,
    evaluation_episodes: int | float = 10,
    evaluation_max_steps: int | float = math.inf,
    initial_states: int = 1000,
    initial_states_dir: str | None = "runs/initial_states",
    media_period_evaluations: int = 10,
    log_weights: bool = False,
    checkpoint_period_minutes: float | None = 10.0,
    keep: int = 2,
    keep_weights: Literal["none", "all"] = "none",
    initial_weights: str | None = None,
    total_steps: int | float = 80_000_000,  # 320M frames
) -> AsynchronousRun:
    """An asynchronous method on the paper's small network."""
    assembly = AsynchronousAssembly(locals())
    from dqn_lab.models.networks import small

    sequence = assembly.atari_sequence()
    network = small(
        sequence.state_shape,
        sequence.num_actions,
        dueling=dueling,
        actor_critic=assembly.actor_critic,
        lstm_units=256 if lstm else 0,
        initializer=initializer,
        seed=seed,
    )
    return assembly.run(sequence, network)
