"""What a worker is made of, for the tests; and as a program, workers whose parent is killed while they learn.

python walking_workers.py < PAYLOAD
"""

import multiprocessing
import os
import signal
import sys
import threading

import cloudpickle
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from hogwild_workers import named_files

from dqn_lab.asynchronous.shared_parameters import SharedParameters
from dqn_lab.asynchronous.shared_progress import Shared, SharedProgress
from dqn_lab.asynchronous.team import Team

SPAWN = multiprocessing.get_context("spawn")


GATE = threading.Event()  # what makes an environment may wait for it


class Walk(gymnasium.Env):
    """A random walk that its actions push: every number depends on its seed, and it tells and takes its state."""

    def __init__(self, reward_scale=1.0):
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = Discrete(3)
        self.reward_scale = reward_scale

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.normal()
        return self._observe(), {}

    def step(self, action):
        self.place += self.np_random.normal(scale=0.5) + 0.2 * (int(action) - 1)
        reward = self.reward_scale * float(self.np_random.normal())
        return self._observe(), reward, abs(self.place) > 2, bool(self.np_random.random() < 0.1), {}

    def get_state(self):
        return {"place": self.place, "generator": self.np_random.bit_generator.state}

    def set_state(self, state):
        self.place, self.np_random.bit_generator.state = state["place"], state["generator"]

    def _observe(self):
        return np.array([self.place, self.np_random.random()], np.float32)


class Still:
    """Stands in for a worker's network where it is of no account: quickly made, and every slope is 1."""

    def __init__(self, network, method):
        self.lstm_units, self.size = 0, network.count_params()
        self.loaded, self.loaded_target = [], []

    def load(self, parameters):
        self.loaded.append(parameters.copy())

    def load_target(self, parameters):
        self.loaded_target.append(parameters.copy())

    def values(self, state):
        return np.zeros((1, 3), np.float32)

    def gradient(self, segment):
        return np.ones(self.size, np.float32), 0.0, 0.0


def make_sequence(epsilon, seed, environment=Walk, gamma=0.9):
    from dqn_lab.sequences.environment import EnvironmentSequence

    return EnvironmentSequence(
        environment,
        replay_capacity_steps=8,
        replay_min_steps=1,
        updates_per_epoch=1,
        batch_size=1,
        epsilon=epsilon,
        seed=seed,
        gamma=gamma,
    )


def make_network(method, *, lstm_units=0, state_shape=(2,), num_actions=3, **given):
    from dqn_lab.models.networks import mlp

    return mlp(
        state_shape,
        num_actions,
        **{"hidden": (4,), "seed": 3, **given},
        actor_critic=method.actor_critic,
        lstm_units=lstm_units,
    )


def make_shared(network, num_workers=1, statistics=0.0):
    """Shared memory with the network's parameters in it."""
    initial = np.concatenate([each.numpy().ravel() for each in network.trainable_variables])
    return Shared.beginning(initial, num_workers, SPAWN, statistics)


def main():
    size, num_workers, payload = cloudpickle.load(sys.stdin.buffer)
    shared = Shared(SharedParameters(size, SPAWN), SharedProgress(num_workers, SPAWN))
    team = Team(payload, shared, num_workers, SPAWN)
    team.begin([None] * num_workers, due_steps=2**62)
    while not shared.progress.counters[:, 0].all():  # updates: all of them learn
        team.wait(0.01)
    print("named:", *named_files(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
