"""What a notebook shows of runs and sequences: what is run, by which rules and how far, and no memory addresses."""

import re

import pytest
import toy_async_rundef
import toy_rundef

from dqn_lab.environments.catch import Catch
from dqn_lab.sequences.atari import AtariSequence
from dqn_lab.sequences.environment import EnvironmentSequence
from dqn_lab.sequences.synchronous import SynchronousSequence

SMALL = {"num_envs": 2, "replay_capacity_steps": 60, "replay_min_steps": 4, "updates_per_epoch": 3, "batch_size": 8}


class Mine(SynchronousSequence):
    def get_states_start(self):
        return 1

    def get_feature_by_index(self, index):
        return self.replay.observations(index, 1)[:, 0]

    def get_reward_by_index(self, index):
        return self.replay.rewards(index)


def without_addresses(thing):
    told = repr(thing)
    assert not re.search(r"0x[0-9a-f]{4}| object at | at 0x|<function", told)
    return told


@pytest.mark.parametrize("kind", [EnvironmentSequence, Mine])
def test_a_sequence_tells_game_lanes_and_counts(kind):
    sequence = kind(Catch, epsilon=1.0, **SMALL)
    sequence.simulate(20)
    told = without_addresses(sequence)
    assert told.startswith(f"{kind.__name__}('Catch', num_envs=2, num_actions=3, batch_size=8, steps=20, frames=20, ")
    assert re.search(r"episodes=2, replay=\d+ of \d+ rows\)$", told)  # a game is 9 steps


def test_an_atari_sequence_tells_its_protocol_and_counts_frames():
    sequence = AtariSequence("pong", protocol="nature-2015", epsilon=1.0, **SMALL)
    sequence.simulate(4)
    told = without_addresses(sequence)
    sequence.close()
    assert told.startswith("AtariSequence(")
    assert "pong" in told.lower()
    assert "protocol='nature-2015" in told
    assert "num_envs=2, num_actions=6, batch_size=8, steps=4, frames=16, episodes=0, replay=" in told


def test_a_run_tells_game_rules_network_agent_and_sequence():
    run = toy_rundef.run(total_steps=1_000)
    first, *lines = without_addresses(run).splitlines()
    assert first == "Run: Misbehaving, 0 of 1,000 steps, 0 updates"
    named = dict(line.strip().split(": ", 1) for line in lines)
    assert list(named) == ["device", "feeding", "protocol", "network", "agent", "sequence"]
    assert named["device"] == "cpu (as asked)"
    assert named["protocol"].startswith("classic-control")
    assert named["network"] == f"{run.agent.network.count_params():,} parameters, float32"
    assert named["agent"] == "DQN"
    assert named["sequence"] == repr(run.sequence)


def test_an_asynchronous_run_tells_method_and_workers():
    run = toy_async_rundef.run(method="a3c", num_workers=2)
    first, *lines = without_addresses(run).splitlines()
    assert first == "AsynchronousRun: Misbehaving, 0 of 180 steps, 0 updates"
    named = dict(line.strip().split(": ", 1) for line in lines)
    assert list(named) == ["device", "method", "protocol", "network"]
    assert named["method"].startswith("a3c (")
    assert "2 workers, segments of 5 steps, learning rate 0.001" in named["method"]
    assert named["protocol"].startswith("classic-control")
