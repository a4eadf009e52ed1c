"""Catch by the asynchronous methods at toy size: a rundef for the tests, with keys to make it misbehave."""

import math
import threading
from typing import Literal

from dqn_lab.asynchronous_assembly import AsynchronousAssembly
from dqn_lab.asynchronous_run import AsynchronousRun
from dqn_lab.environments.catch import Catch


class Misbehaving(Catch):
    """Of the rundef's own module, which no worker can import."""

    def __init__(self, hang_at_step: int | None, boom_at_step: int | None):
        super().__init__()
        self.count, self.hang_at_step, self.boom_at_step = 0, hang_at_step, boom_at_step

    def step(self, action):
        self.count += 1
        if self.count == self.boom_at_step:
            raise RuntimeError("boom")
        while self.count == self.hang_at_step:
            threading.Event().wait()
        return super().step(action)


def run(
    *,
    seed: int = 0,
    protocol: str = "classic-control",
    num_workers: int = 1,
    t_max: int = 5,
    method: str = "one_step_q",
    lstm: bool = False,
    double: bool = False,
    dueling: bool = False,
    gamma: float = 0.99,
    loss: str = "huber",
    learning_rate: float = 1e-3,
    anneal: bool = False,
    gradient_clip: float | None = 40.0,
    entropy_beta: float = 0.01,
    value_loss_coefficient: float = 0.5,
    rmsprop: Literal["shared", "per_worker", "momentum_sgd"] = "shared",
    rmsprop_epsilon: float = 0.1,
    rmsprop_start: float = 0.0,
    target_period_steps: int = 40,
    epsilon_start: float = 1.0,
    epsilon_end: float | None = None,
    epsilon_steps: int = 100,
    steps_per_epoch: int = 60,
    greedy: bool = False,
    evaluation_epsilon: float | None = None,
    evaluation_period_epochs: int = 1,
    evaluation_episodes: int | float = 4,
    evaluation_max_steps: int | float = math.inf,
    initial_states: int = 4,
    initial_states_dir: str | None = None,
    media_period_evaluations: int = 0,
    log_weights: bool = False,
    checkpoint_period_minutes: float | None = 10.0,
    keep: int = 2,
    keep_weights: Literal["none", "all"] = "none",
    initial_weights: str | None = None,
    total_steps: int | float = 180,
    locked: bool = False,
    hang_at_step: int | None = None,
    boom_at_step: int | None = None,
) -> AsynchronousRun:
    """Builds it.

    Args:
        locked: the environment's maker holds a lock, which no other process can be given
        hang_at_step: the environment never returns from this step
        boom_at_step: the environment raises at this step
    """
    assembly = AsynchronousAssembly(locals())
    from dqn_lab.models.networks import mlp

    lock = threading.Lock()

    def make_behind_a_lock():
        with lock:
            return Misbehaving(hang_at_step, boom_at_step)

    make_environment = make_behind_a_lock if locked else lambda: Misbehaving(hang_at_step, boom_at_step)
    sequence = assembly.environment_sequence(make_environment)
    network = mlp(
        sequence.state_shape,
        sequence.num_actions,
        hidden=(8,),
        dueling=dueling,
        actor_critic=assembly.actor_critic,
        lstm_units=4 if lstm else 0,
        seed=seed,
    )
    return assembly.run(sequence, network)
