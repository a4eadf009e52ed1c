"""Measures updates per second on Breakout with `overlap`, with `alternate`, and of the bare train step.

Usage: python scripts/compare_feeding.py [--updates 300] [--rounds 3] [--num-envs 4]

The three are measured in turn, in one process, so that they see the same machine; the median over the rounds and the
spread are printed. The bare train step learns from one constant minibatch: no acting, no environment, no drawing.
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import tensorflow as tf

from dqn_lab import DQN, AtariSequence
from dqn_lab.models.networks import nature


def make(feeding: str, updates: int, num_envs: int):
    """Returns an agent with a sequence that feeds it this way."""
    sequence = AtariSequence(
        "breakout",
        protocol="breakout-v0",
        num_envs=num_envs,
        replay_capacity_steps=20_000,
        replay_min_steps=2_000,
        updates_per_epoch=updates,
        epsilon=0.1,
        feeding=feeding,
    )
    agent = DQN(nature(sequence.state_shape, sequence.num_actions), double=True, target_period_updates=10_000)
    agent.compile(optimizer=keras.optimizers.Adam(1e-4))
    return agent, sequence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--num-envs", type=int, default=4)
    given = parser.parse_args()

    pairs = {feeding: make(feeding, given.updates, given.num_envs) for feeding in ("overlap", "alternate")}
    agent, sequence = pairs["alternate"]
    measured = {feeding: lambda pair=pair: pair[0].fit(pair[1], epochs=1, verbose=0) for feeding, pair in pairs.items()}
    for warm_up in measured.values():
        warm_up()
    batch = {key: tf.constant(value) for key, value in sequence[0].items()}
    train_step = tf.function(agent.train_step)

    def bare() -> None:
        for _ in range(given.updates):
            logs = train_step(batch)
        logs["loss"].numpy()

    bare()
    measured["bare train step"] = bare
    rates: dict[str, list[float]] = {name: [] for name in measured}
    for _ in range(given.rounds):
        for name, run in measured.items():
            begin = time.perf_counter()
            run()
            rates[name].append(given.updates / (time.perf_counter() - begin))
    for name, rate in rates.items():
        print(f"{name}: {statistics.median(rate):.1f} updates/s ({min(rate):.1f} to {max(rate):.1f})")


if __name__ == "__main__":
    main()
