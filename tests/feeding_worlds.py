"""Worlds, networks and agents for fits whose every action, step and thread can be told apart."""

import threading

import gymnasium
import keras
import numpy as np
from gymnasium.spaces import Box, Discrete

from dqn_lab.agents.dqn import DQN
from dqn_lab.sequences.environment import EnvironmentSequence

GUARD = 120  # seconds after which a hung test fails; a right answer never waits for it
NUMBERS = 256  # actions of a numbered world: more than any test makes steps


class Numbered(gymnasium.Env):
    """Endless. Its observation tells lane and step, `lane + num_envs * steps`, and so could each of its actions.

    Args:
        lane: its number.
        num_envs: lanes in all.
        hook: called with the world at each step, before it is carried out, on whatever thread that is.
    """

    def __init__(self, lane=0, num_envs=1, hook=None):
        self.observation_space = Box(0, np.inf, (1,), np.float32)
        self.action_space = Discrete(NUMBERS)
        self.lane, self.num_envs, self.hook = lane, num_envs, hook
        self.steps = self.resets = 0
        self.tape = []  # (observation, action) of every step

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets += 1
        return self._observe(), {}

    def step(self, action):
        if self.hook is not None:
            self.hook(self)
        self.tape.append((int(self._observe()[0]), int(action)))
        self.steps += 1
        return self._observe(), 1.0, False, False, {}

    def _observe(self):
        return np.array([self.lane + self.num_envs * self.steps], np.float32)


class NumberedSequence(EnvironmentSequence):
    """A sequence of numbered worlds that keeps a tape of the steps made when each minibatch was drawn."""

    def __init__(self, feeding, *, num_envs=2, train_period_steps=2, hook=None, fill=None, **settings):
        self.worlds, self.tape = [], []

        def make():
            self.worlds.append(Numbered(len(self.worlds), num_envs, hook))
            return self.worlds[-1]

        super().__init__(
            make,
            num_envs=num_envs,
            train_period_steps=train_period_steps,
            replay_capacity_steps=128 * num_envs,
            replay_min_steps=4 * num_envs if fill is None else fill,
            feeding=feeding,
            **{"batch_size": 4, "updates_per_epoch": 5, "epsilon": 0.0} | settings,
        )

    def produce_batch(self, *arguments):
        batch = super().produce_batch(*arguments)
        self.tape.append(self.steps)
        return batch

    def decisions(self):
        """Every (observation, action) after the initial fill, lane by lane."""
        fill = self.replay_min_steps // self.num_envs
        return [pair for world in self.worlds for pair in world.tape[fill:]]

    def late_decisions(self):
        return [pair for pair in self.decisions() if pair[0] != pair[1]]


class Idle(DQN):
    """Learns nothing; `hook(agent)` runs inside each update."""

    hook = None

    def train_step(self, batch):
        if self.hook is not None:
            self.hook(self)
        return {"loss": 0.0}


class StopAfter(keras.callbacks.Callback):
    """Ends the fit after so many updates of an epoch, once `ready` holds."""

    def __init__(self, updates, ready=None):
        super().__init__()
        self.updates, self.ready = updates, ready

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 == self.updates:
            if self.ready is not None:
                wait_for(self.ready)
            self.model.stop_training = True


class At(keras.callbacks.Callback):
    """Calls `act` after one update of the first epoch, or raises it."""

    def __init__(self, batch, act):
        super().__init__()
        self.batch, self.act = batch, act

    def on_train_batch_end(self, batch, logs=None):
        if batch == self.batch:
            if isinstance(self.act, BaseException):
                raise self.act
            self.act()


def wait_for(event):
    if not event.wait(GUARD):
        raise TimeoutError("what the test waits for has not happened")


def table_network(kernel, bias):
    """A linear network: states [B, F] -> states @ kernel + bias, [B, A]."""
    kernel = np.asarray(kernel, np.float32)
    state = keras.Input((kernel.shape[0],))
    network = keras.Model(state, keras.layers.Dense(kernel.shape[1])(state))
    network.set_weights([kernel, np.asarray(bias, np.float32)])
    return network


def echo_network():
    """Its greedy action is its observation: -(a - s)^2 without the s^2 that is the same for all."""
    number = np.arange(NUMBERS)
    return table_network(2 * number[None, :], -(number**2))


def echo_agent(hook=None, cls=Idle, **settings):
    agent = cls(echo_network(), **{"target_period_updates": None} | settings)
    agent.hook = hook
    agent.compile("sgd", run_eagerly=True)
    return agent


def threads():
    """Python's threads, without those that only passed through."""
    return {thread for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)}


def cartpole_sequence(feeding="alternate", **settings):
    return EnvironmentSequence(
        lambda: gymnasium.make("CartPole-v1"),
        feeding=feeding,
        **{
            "num_envs": 4,
            "replay_capacity_steps": 400,
            "replay_min_steps": 40,
            "updates_per_epoch": 10,
            "batch_size": 8,
            "epsilon": 0.2,
            "seed": 1,
        }
        | settings,
    )


class Losses(keras.callbacks.Callback):
    """Keeps each update's loss, the mean since the epoch began."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(self.model.loss_mean.result()))  # `logs` may be some updates old
