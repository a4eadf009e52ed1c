"""Rollouts against what really happened: scripted episodes of every kind, cut into segments."""

import copy
import functools
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st
from worlds import Named

from dqn_lab.asynchronous.rollout import Rollout, WorkerPolicy
from dqn_lab.exploration import epsilon_greedy
from dqn_lab.sequences.environment import EnvironmentSequence

GAMMA = 0.9


class Scripted(Named):
    """Episodes (length, end, steps that cost a life), again and again; a step's reward is its number in the run."""

    def __init__(self, script):
        super().__init__(num_actions=3)
        self.script = script

    def length(self):
        return self.script[self.episode % len(self.script)][0]

    def step(self, action):
        _, self.end, losses = self.script[self.episode % len(self.script)]
        observation, _, terminated, truncated, info = super().step(action)
        return observation, self.steps, terminated, truncated, info | {"life_lost": self.elapsed in losses}


class Pairs(EnvironmentSequence):
    """States are two observations, and a lost life is terminal."""

    def get_states_start(self):
        return 2

    def get_feature_by_index(self, index):
        return self.replay.observations(index, 2)[:, :, 0]  # [B, 2]

    def get_terminal(self, step):
        return step.terminated | step.life_lost


class Scores:
    """Stands in for a network: the greedy action in a state is its newest name times 7, modulo 3.

    A memory counts the states that it has seen, and holds the newest.
    """

    def __init__(self, lstm_units=0):
        self.lstm_units = lstm_units

    def values(self, state):
        return np.eye(3, dtype=np.float32)[[greedy(state[0, -1])]]

    def recall(self, state, memory):
        return self.values(state), np.array([[[memory[0, 0, 0] + 1]], [[state[0, -1]]]], np.float32)


def greedy(name):
    return int(name) * 7 % 3


def states_of(episode, elapsed):
    """The state after some steps of an episode: two names, the first one twice at its start."""
    return [100 * episode + max(elapsed - 1, 0), 100 * episode + elapsed]


def history(script, steps):
    """What happens in the steps of a run, one dict each."""
    told, episode = [], 0
    while len(told) < steps:
        length, end, losses = script[episode % len(script)]
        for elapsed in range(length):
            last = elapsed + 1 == length
            terminal = elapsed + 1 in losses or (last and end == "terminated")
            told.append(
                {
                    "episode": episode,
                    "elapsed": elapsed,
                    "state": states_of(episode, elapsed),
                    "after": states_of(episode, elapsed + 1),
                    "terminal": terminal,
                    "ended": last,
                    "reward": len(told) + 1.0,
                }
            )
        episode += 1
    return told


def rollout_of(script, t_max, *, next_action=False, lstm_units=0, epsilon=0.0, seed=0, kind=Pairs, environment=None):
    environment = environment or functools.partial(Scripted, script)
    sequence = kind(
        environment,
        replay_capacity_steps=8,
        replay_min_steps=1,
        updates_per_epoch=1,
        batch_size=1,
        epsilon=epsilon,
        gamma=GAMMA,
        seed=seed,
    )
    policy = WorkerPolicy(Scores(lstm_units), samples=False, generator=np.random.default_rng(seed))
    return Rollout(sequence, policy, SimpleNamespace(needs_next_action=next_action), t_max)


episodes = st.tuples(
    st.integers(1, 7), st.sampled_from(["terminated", "truncated"]), st.frozensets(st.integers(1, 7), max_size=2)
)
scripts = st.lists(episodes, min_size=1, max_size=4)


def check(segments, told, t_max, *, next_action=False, lstm=False):
    """Says that segments hold the steps that were told, each one once and in order, cut where they are to be."""
    position = 1  # the first step is drawn at random
    for segment in segments:
        length = len(segment["action"])
        rows = told[position : position + length]
        position += length
        np.testing.assert_array_equal(segment["state"], [row["state"] for row in rows] + [rows[-1]["after"]])
        assert segment["reward"].tolist() == [row["reward"] for row in rows]
        assert segment["discount"].tolist() == pytest.approx([GAMMA * (not row["terminal"]) for row in rows])
        assert segment["action"].tolist() == [greedy(row["state"][1]) for row in rows]
        over = rows[-1]["terminal"] or rows[-1]["ended"]
        assert not any(row["terminal"] or row["ended"] for row in rows[:-1])
        assert length == t_max or over
        assert length <= t_max + (next_action and rows[-1]["ended"] | rows[-1]["terminal"])
        if next_action:
            taken = [greedy(row["after"][1]) for row in rows]
            assert segment["next_action"].tolist() == taken[:-1] + [0 if rows[-1]["terminal"] else taken[-1]]
        assert ("next_action" in segment) == next_action
        if lstm:
            seen = [row for row in told[1:position] if row["episode"] == rows[0]["episode"]]
            before = [row["state"][1] for row in seen if row["elapsed"] < rows[0]["elapsed"]]
            assert segment["memory"].ravel().tolist() == ([len(before), before[-1]] if before else [0, 0])
        assert ("memory" in segment) == lstm
        types = {name: array.dtype for name, array in segment.items() if name != "state"}
        assert types == {name: np.int32 if "action" in name else np.float32 for name in types}
    return position


@given(scripts, st.integers(1, 6), st.sampled_from(["plain", "next action", "lstm"]))
def test_every_step_is_in_one_segment_as_it_was(script, t_max, kind):
    how = {"next_action": kind == "next action"}
    rollout = rollout_of(script, t_max, lstm_units=int(kind == "lstm"), **how)
    segments = [rollout.segment() for _ in range(12)]
    told = history(script, 12 * (t_max + 1) + 20)
    count = check(segments, told, t_max, lstm=kind == "lstm", **how)
    waiting = len(rollout.get_state()["rows"])
    assert rollout._sequence.steps == count + waiting  # none is lost
    assert waiting <= how["next_action"]


def test_a_lane_that_spends_a_step_on_its_reset_gives_no_step():
    script = [(3, "terminated", ()), (1, "truncated", ()), (4, "truncated", ())]
    for kind in ({}, {"next_action": True}, {"lstm_units": 1}):

        def make():
            return SyncVectorEnv([functools.partial(Scripted, script)], autoreset_mode=AutoresetMode.NEXT_STEP)

        rollout = rollout_of(script, 2, environment=make, **kind)
        segments = [rollout.segment() for _ in range(8)]
        count = check(segments, history(script, 30), 2, next_action="next_action" in kind, lstm="lstm_units" in kind)
        assert count == 1 + sum(len(segment["action"]) for segment in segments)


def test_a_time_limit_bootstraps_from_its_final_observation_and_not_from_the_next_first_one():
    rollout = rollout_of([(3, "truncated", ())], 5)
    segment = rollout.segment()
    assert segment["state"].tolist() == [[0, 1], [1, 2], [2, 3]]
    assert segment["discount"].tolist() == pytest.approx([GAMMA, GAMMA])
    assert rollout.segment()["state"][0].tolist() == [100, 100]


def test_a_lost_life_ends_a_segment_and_not_the_memory():
    rollout = rollout_of([(5, "terminated", (3,))], 5, lstm_units=1)
    first, second = rollout.segment(), rollout.segment()
    assert first["state"].tolist() == [[0, 1], [1, 2], [2, 3]]
    assert first["discount"].tolist() == pytest.approx([GAMMA, 0])
    assert second["state"].tolist() == [[2, 3], [3, 4], [4, 5]]
    assert second["memory"].ravel().tolist() == [2, 2]
    assert rollout.segment()["memory"].ravel().tolist() == [0, 0]


def test_the_first_step_is_drawn_at_random_even_where_it_ends_its_episode():
    rollout = rollout_of([(1, "terminated", ()), (2, "terminated", ())], 5, lstm_units=1)
    segment = rollout.segment()
    assert segment["state"].tolist() == [[100, 100], [100, 101], [101, 102]]
    assert segment["memory"].ravel().tolist() == [0, 0]
    drawn = set()
    for seed in range(12):
        rollout = rollout_of([(9, "terminated", ())], 1, seed=seed)
        assert rollout._step() is None
        drawn.add(int(rollout._sequence.get_latest_action()[0]))
    assert drawn == {0, 1, 2}


def test_the_action_past_a_time_limit_is_drawn_as_it_would_have_been():
    rollout = rollout_of([(4, "truncated", ())], 5, next_action=True, epsilon=1.0, seed=3)
    drawn = []
    for _ in range(8):
        segment = rollout.segment()
        assert segment["next_action"][:-1].tolist() == segment["action"][1:].tolist()
        drawn.append(int(segment["next_action"][-1]))
    generator = np.random.default_rng(3)  # the policy's own: the games' course doesn't depend on it
    assert drawn == [int(epsilon_greedy(np.zeros((1, 3)), 1.0, generator)[0]) for _ in range(8)]
    assert len(set(drawn)) > 1


@pytest.mark.parametrize("kind", [{}, {"next_action": True}, {"lstm_units": 1}])
def test_a_rollout_goes_on_from_a_state(kind):
    script = [(9, "truncated", (5,)), (4, "terminated", ())]
    one = rollout_of(script, 3, **kind)
    for _ in range(4):
        one.segment()
        state = copy.deepcopy(one.get_state())
        other = Rollout(one._sequence, one._policy, one._method, 3)
        other.set_state(state)
        one = other
    rollout = rollout_of(script, 3, **kind)
    for _ in range(4):
        rollout.segment()
    for _ in range(6):
        again, segment = one.segment(), rollout.segment()
        assert list(again) == list(segment)
        for name in segment:
            np.testing.assert_array_equal(again[name], segment[name])


# The policy.


def test_a_policy_is_sampled_by_its_odds():
    network = SimpleNamespace(lstm_units=0, values=lambda state: np.log(np.float32([[0.1, 0.6, 0.3]])))
    policy = WorkerPolicy(network, samples=True, generator=np.random.default_rng(0))
    drawn = np.array([np.argmax(policy(np.zeros((1, 2)))) for _ in range(6000)])
    assert np.bincount(drawn, minlength=3) / 6000 == pytest.approx([0.1, 0.6, 0.3], abs=0.02)


def test_values_are_taken_as_they_are_and_no_dice_are_thrown():
    generator = np.random.default_rng(0)
    policy = WorkerPolicy(Scores(), samples=False, generator=generator)
    assert policy(np.array([[0, 5]])).tolist() == [[0, 0, 1]]
    assert policy.memory is None
    assert generator.random() == np.random.default_rng(0).random()


def test_a_policy_samples_with_a_memory_too():
    policy = WorkerPolicy(Scores(1), samples=True, generator=np.random.default_rng(0))
    values = policy(np.array([[0, 5]]))
    assert values.tolist() == ([[0, 0, 1]] + np.random.default_rng(0).gumbel(size=(1, 3))).tolist()
    assert policy.memory.ravel().tolist() == [1, 5]
