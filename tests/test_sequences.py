import threading

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st
from sequence_contract import SETTINGS, SequenceContract, hashed, stored
from worlds import Breaking, Chance, Named, OldStep, StepNumber, names

from dqn_lab.schedules import LinearSchedule
from dqn_lab.sequences.environment import EnvironmentSequence
from dqn_lab.sequences.synchronous import SynchronousSequence


class Chance2(Chance):
    def __init__(self):
        super().__init__()
        self.action_space = gymnasium.spaces.Discrete(2)


class Pairs(SynchronousSequence):
    """The three hooks: two observations of `Named` in a state, oldest first."""

    def get_states_start(self):
        return 2

    def get_feature_by_index(self, index):
        return self.replay.observations(index, 2)[..., 0]

    def get_reward_by_index(self, index):
        return self.replay.rewards(index)


class TestEnvironmentSequence(SequenceContract):
    def make(self, **settings):
        return EnvironmentSequence(Chance2, **settings)


class TestThreeMethodSubclass(SequenceContract):
    def make(self, **settings):
        return Pairs(Chance2, **settings)


class TestSteppedByAUsersVectorEnvironment(SequenceContract):
    def make(self, num_envs, **settings):
        def make():
            return SyncVectorEnv([Chance2] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)

        return EnvironmentSequence(make, num_envs=None, **settings)


def small(make, kind=EnvironmentSequence, **settings):
    few = {"replay_capacity_steps": 64, "replay_min_steps": 4, "updates_per_epoch": 3, "epsilon": 1.0}
    return kind(make, **few | settings)


def named(sequence):
    """Returns {state: (reward, discount, next state)} of all that may be drawn, by the names in the states."""
    found = stored(sequence)
    columns = (found[key].tolist() for key in ("reward", "discount", "next_state"))
    states = [tuple(np.ravel(state).astype(int).tolist()) for state in found["state"]]
    return dict(zip(states, zip(*columns, strict=True), strict=True))
