"""Catch at toy size: a rundef for the tests, with keys to make it misbehave."""

import math
import threading
from typing import Literal

from dqn_lab.assembly import Assembly
from dqn_lab.run import Run


def run(
    *,
    seed: int = 0,
    protocol: str = "classic-control",
    num_envs: int = 2,
    replay_capacity_steps: int = 400,
    replay_min_steps: int = 40,
    replay_compression: str = "none",
    updates_per_epoch: int = 10,
    train_period_steps: int = 4,
    target_period_updates: int | None = 5,
    batch_size: int = 8,
    double: bool = True,
    learning_rate: float = 1e-3,
    device: str = "cpu",
    feeding: str = "auto",
    epsilon_start: float = 1.0,
    epsilon_end: float | None = 0.1,
    epsilon_begin_steps: int = 0,
    epsilon_steps: int = 100,
    evaluation_epsilon: float | None = None,
    evaluation_period_epochs: int = 1,
    evaluation_episodes: int | float = 4,
    evaluation_max_steps: int | float = math.inf,
    initial_states: int = 4,
    initial_states_dir: str | None = None,
    media_period_evaluations: int = 0,
    log_period_updates: int = 1000,
    log_weights: bool = False,
    checkpoint_period_steps: int | None = 500_000,
    checkpoint_period_minutes: float | None = 10.0,
    keep: int = 2,
    keep_weights: Literal["none", "all"] = "none",
    initial_weights: str | None = None,
    total_steps: int | float = math.inf,
    total_updates: int | float = math.inf,
    hang_at_step: int | None = None,
    boom_at_step: int | None = None,
) -> Run:
    """Builds it.

    Args:
        hang_at_step: the environment never returns from this step
        boom_at_step: the environment raises at this step
    """
    assembly = Assembly(locals())
    from dqn_lab.environments.catch import Catch
    from dqn_lab.models.networks import mlp

    class Misbehaving(Catch):
        count = 0

        def step(self, action):
            self.count += 1
            if self.count == boom_at_step:
                raise RuntimeError("boom")
            while self.count == hang_at_step:
                print("hanging", flush=True)
                threading.Event().wait()
            return super().step(action)

    sequence = assembly.environment_sequence(Misbehaving)
    network = mlp(sequence.state_shape, sequence.num_actions, hidden=(8,), seed=seed)
    return assembly.run(sequence, network)
