import copy

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from worlds import Breaking, BreakingReset, Game, Named, StepNumber, names

from dqn_lab.environments.lanes import Lanes
from dqn_lab.replay.replay import Replay
from dqn_lab.replay.ring import FrameRing
from dqn_lab.sequences.simulation import Simulation

NONE = -1  # the action of a row in which none was taken


def begun_simulation(make, num_envs=1, capacity=60, get_terminal=lambda step: step.terminated, **kwargs):
    lanes = Lanes(make, num_envs, **kwargs)
    space = lanes.observation_space
    ring = FrameRing(capacity, lanes.num_envs, space.shape, space.dtype)
    simulation = Simulation(lanes, Replay(ring, span=1, n_step=1), get_terminal)
    simulation.begin([1] * lanes.num_envs)
    return simulation


def play(simulation, steps, action=1):
    for _ in range(steps):
        simulation.step(np.full(simulation.lanes.num_envs, action))
        simulation.replay.ring.check_valid()
    return simulation


def rows(simulation, lane=0):
    """Returns name, action, reward, terminal, episode end and age of a lane's rows, the oldest first."""
    ring = simulation.replay.ring
    index = np.arange(ring.oldest_position[lane], ring.written[lane]) * ring.num_envs + lane
    slot = ring.slot(index)
    columns = ring.action, ring.reward, ring.terminal, ring.episode_end, ring.age
    named = names(ring.frames.read(index).reshape(len(slot), -1))
    return list(zip(named, *(column[slot].tolist() for column in columns), strict=True))


# --- what is stored ------------------------------------------------------------------------------


def test_the_observation_that_ends_an_episode_and_the_first_of_the_next_have_a_row_each():
    simulation = play(begun_simulation(lambda: Named((2, 1), reward=5.0)), 3)

    assert rows(simulation) == [
        (0, 1, 5.0, False, False, 0),
        (1, 1, 5.0, True, True, 1),
        (2, NONE, 0.0, False, False, 2),
        (100, 1, 5.0, True, True, 0),
        (101, NONE, 0.0, False, False, 1),
        (200, NONE, 0.0, False, False, 0),
    ]


def test_a_truncation_ends_the_episode_and_is_no_terminal():
    simulation = play(begun_simulation(lambda: Named((2,), "truncated")), 3)

    assert rows(simulation) == [
        (0, 1, 1.0, False, False, 0),
        (1, 1, 1.0, False, True, 1),
        (2, NONE, 0.0, False, False, 2),
        (100, 1, 1.0, False, False, 0),
        (101, NONE, 0.0, False, False, 1),
    ]


def test_a_lost_life_may_be_terminal_and_ends_no_episode():
    simulation = begun_simulation(
        lambda: Game(length=9, lives=(3, 2, 2), size=1), get_terminal=lambda step: step.terminated | step.life_lost
    )
    play(simulation, 3)

    assert [row[3:] for row in rows(simulation)] == [
        (False, False, 0),
        (True, False, 1),
        (False, False, 2),
        (False, False, 3),
    ]


def test_lanes_are_stored_side_by_side_each_with_its_own_ends():
    lengths = iter([(1,), (3,)])
    simulation = play(begun_simulation(lambda: Named(next(lengths)), 2), 3)

    assert [row[0] for row in rows(simulation, 0)] == [0, 1, 100, 101, 200, 201, 300]
    assert [row[0] for row in rows(simulation, 1)] == [0, 1, 2, 3, 100]


@pytest.mark.case("B076")
def test_rows_of_resets_are_dropped_and_not_counted():
    make = lambda: SyncVectorEnv([lambda: Named((3,))] * 2, autoreset_mode=AutoresetMode.NEXT_STEP)  # noqa: E731
    simulation = begun_simulation(make, None)
    dropped = 0
    for _ in range(8):
        play(simulation, 1)
        dropped += int((~simulation.acted).sum())

    stored = [row for lane in (0, 1) for row in rows(simulation, lane) if row[1] != NONE]
    assert len(stored) == 12
    assert dropped == 4
    assert (simulation.steps, simulation.frames) == (12, 12)
    assert (simulation.episodes, simulation.episode_return_sum, simulation.episode_length_sum) == (4, 12.0, 12)
    assert [row[0] for row in rows(simulation, 1)] == [0, 1, 2, 3, 100, 101, 102, 103, 200]


def test_the_action_of_a_step_that_only_resets_is_not_recorded():
    simulation = begun_simulation(lambda: SyncVectorEnv([lambda: Named((2,))]), None)
    for action in (0, 1, 0, 1, 1):  # the third one meets the reset
        simulation.step(np.array([action]))

    assert [row[:2] for row in rows(simulation)] == [
        (0, 0),
        (1, 1),
        (2, NONE),
        (100, 1),
        (101, 1),
        (102, NONE),
    ]


# --- counts --------------------------------------------------------------------------------------


def test_games_are_counted_whole_and_raw_in_every_lane():
    lengths = iter([(1,), (3,)])
    simulation = play(begun_simulation(lambda: Named(next(lengths), reward=lambda step: 10.0**step), 2), 4)

    # Lane 0 plays four games of return 10; lane 1 one of 10 + 100 + 1,000, and has begun another.
    assert (simulation.steps, simulation.frames, simulation.episodes) == (8, 8, 5)
    assert simulation.episode_return_sum == 4 * 10.0 + 1_110.0
    assert simulation.episode_length_sum == 4 * 1 + 3


def test_frames_are_those_that_the_environment_says():
    skips = iter([3, 4])
    simulation = play(begun_simulation(lambda: Game(length=2, frames=next(skips), size=1), 2), 5)

    assert (simulation.steps, simulation.frames) == (10, 5 * 3 + 5 * 4)


def test_a_lost_life_is_no_game():
    simulation = begun_simulation(
        lambda: Game(length=4, lives=(3, 2, 1, 0), size=1), get_terminal=lambda step: step.terminated | step.life_lost
    )
    play(simulation, 5)

    assert (simulation.episodes, simulation.episode_return_sum, simulation.episode_length_sum) == (1, 4.0, 4)


# --- the last decision ---------------------------------------------------------------------------


def test_the_last_decision_is_told_lane_by_lane():
    ends = iter(["terminated", "truncated", None])
    simulation = begun_simulation(lambda: Named((2,), next(ends), reward=lambda step: float(step)), 3)
    play(simulation, 1)
    simulation.step(np.array([0, 1, 0]))

    assert simulation.action.tolist() == [0, 1, 0]
    assert simulation.reward.tolist() == [2.0, 2.0, 2.0]
    assert simulation.terminal.tolist() == [True, False, False]
    assert simulation.episode_end.tolist() == [True, True, False]
    assert simulation.truncation.tolist() == [False, True, False]
    assert simulation.begun.tolist() == [True, True, False]
    assert simulation.decided.tolist() == [3, 4, 5]


def test_a_game_that_ends_by_its_rules_at_the_time_limit_is_not_truncated():
    class Both(Named):
        def step(self, action):
            return *super().step(action)[:2], True, True, {}

    simulation = play(begun_simulation(Both), 1)

    assert simulation.terminal.tolist() == [True]
    assert simulation.truncation.tolist() == [False]
    assert simulation.episode_end.tolist() == [True]


def test_a_step_that_only_resets_ends_nothing():
    simulation = play(begun_simulation(lambda: SyncVectorEnv([lambda: Named((2,))]), None), 3)

    assert simulation.acted.tolist() == [False]
    assert simulation.begun.tolist() == [True]
    assert not (simulation.terminal | simulation.episode_end | simulation.truncation).any()


# --- beginning anew ------------------------------------------------------------------------------


def test_a_running_episode_that_is_left_counts_as_no_game_and_joins_nothing():
    simulation = play(begun_simulation(lambda: Named((4,))), 3)
    simulation.begin()
    play(simulation, 4)

    assert [row[0] for row in rows(simulation)] == [0, 1, 2, 3, 100, 101, 102, 103, 104, 200]
    assert [row[4] for row in rows(simulation)][:4] == [False, False, True, False]
    assert (simulation.episodes, simulation.episode_return_sum, simulation.episode_length_sum) == (1, 4.0, 4)


def test_only_the_lanes_of_a_mask_begin_anew():
    made = []

    def make():
        made.append(Named((2,)))
        return made[-1]

    simulation = play(begun_simulation(make, 2, autoreset=AutoresetMode.DISABLED), 2)
    simulation.begin([None, 9], np.array([False, True]))

    assert simulation.has_begun
    assert [environment.seeds for environment in made] == [[1], [1, 9]]
    assert [row[0] for row in rows(simulation, 0)] == [0, 1, 2]
    assert [row[0] for row in rows(simulation, 1)] == [0, 1, 2, 100]
    assert simulation.episode_end.tolist() == [True, False]


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.case("B027")
def test_a_reward_that_is_no_number_names_the_step_and_stores_nothing():
    simulation = play(begun_simulation(lambda: Breaking(37, "reward")), 36)
    before = copy.deepcopy(simulation.replay.ring.get_state()), simulation.get_state()

    with pytest.raises(FloatingPointError) as raised:
        play(simulation, 1)

    assert str(raised.value) == (
        "The environment returned a reward that is not finite at step 37, in lane 0. Received: reward=nan"
    )
    np.testing.assert_equal((simulation.replay.ring.get_state(), simulation.get_state()), before)


def test_the_step_of_a_broken_reward_is_counted_over_all_lanes():
    environments = iter([Named(None), Breaking(4, "reward"), Named(None)])
    simulation = play(begun_simulation(lambda: next(environments), 3), 3)

    with pytest.raises(FloatingPointError, match=r"at step 11, in lane 1\. Received: reward=nan"):
        play(simulation, 1)


def test_steps_that_only_reset_do_not_number_a_broken_reward():
    environments = [Named((3,)), Breaking(4, "reward")]
    make = lambda: SyncVectorEnv([lambda each=each: each for each in environments])  # noqa: E731
    simulation = play(begun_simulation(make, None), 3)

    with pytest.raises(FloatingPointError, match=r"at step 7, in lane 1\. Received: reward=nan"):
        play(simulation, 1)


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_an_observation_that_is_no_number_names_step_lane_and_update(mode):
    environments = iter([Named(None), Breaking(2, "observation")])
    simulation = play(begun_simulation(lambda: next(environments), 2, autoreset=mode), 1)
    with pytest.raises(FloatingPointError) as raised:
        simulation.step(np.zeros(2, int), 7)
    assert str(raised.value) == (
        "The environment returned an observation that is not finite at step 4, in lane 1, before update 7. "
        "Received: observation=nan"
    )
    assert (simulation.steps, simulation.has_begun) == (2, False)


def test_a_final_observation_that_is_no_number_is_refused():
    simulation = begun_simulation(lambda: Breaking(2, "observation", lengths=(2,)))
    with pytest.raises(FloatingPointError, match=r"an observation that is not finite at step 2, in lane 0\."):
        play(simulation, 2)


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_a_first_observation_that_is_no_number_is_refused(mode):
    environments = [Named(None), BreakingReset((2,))]
    make = lambda: SyncVectorEnv([lambda each=each: each for each in environments], autoreset_mode=mode)  # noqa: E731
    simulation = play(begun_simulation(make, None), 1)
    with pytest.raises(
        FloatingPointError, match=r"observation that is not finite at step \d, in lane 1\. Received: obs.*=nan"
    ):
        play(simulation, 2)


def test_a_first_observation_of_a_reset_that_is_no_number_is_refused():
    simulation = begun_simulation(BreakingReset, autoreset=AutoresetMode.DISABLED)
    with pytest.raises(FloatingPointError, match=r"a first observation that is not finite at step 0, in lane 0\."):
        simulation.begin(None, np.ones(1, bool))


@pytest.mark.parametrize("what", ["raise", "reward", "observation"])
def test_after_an_error_the_environments_must_begin_anew(what):
    simulation = play(begun_simulation(lambda: Breaking(3, what)), 2)
    with pytest.raises((RuntimeError, FloatingPointError)):
        play(simulation, 1)
    assert not simulation.has_begun

    simulation.begin()
    assert simulation.has_begun
    play(simulation, 1)
    assert simulation.has_begun
    assert [row[0] for row in rows(simulation)] == [0, 1, 2, 100, 101]
    assert [row[4] for row in rows(simulation)] == [False, True, False, False, False]


@pytest.mark.parametrize("method", ["record", "append"])
@pytest.mark.parametrize("call", [0, 1])
def test_an_interrupt_between_two_writes_leaves_nothing_that_looks_across_it(monkeypatch, method, call):
    simulation = play(begun_simulation(lambda: Named((3,))), 2)  # the next step appends two rows
    ring, calls = simulation.replay.ring, iter(range(9))
    write = getattr(ring, method)

    def interrupted(*arguments):
        if next(calls) == call:
            raise KeyboardInterrupt
        write(*arguments)

    monkeypatch.setattr(ring, method, interrupted)
    with pytest.raises(KeyboardInterrupt):
        play(simulation, 9)
    monkeypatch.undo()
    simulation.begin()
    play(simulation, 2)  # checks the ring

    whole = [row for row in rows(simulation) if row[1] != NONE]
    later = {row[0]: after[0] for row, after in zip(rows(simulation), rows(simulation)[1:], strict=False)}
    assert all(later[row[0]] == row[0] + 1 for row in whole)


# --- state ---------------------------------------------------------------------------------------


def test_the_state_of_the_counts_comes_back_and_is_a_copy():
    lengths = iter([(2,), (3,)])
    simulation = play(begun_simulation(lambda: Named(next(lengths)), 2), 4)
    state = simulation.get_state()
    kept = copy.deepcopy(state)
    play(simulation, 3)
    assert state["steps"] == 8 and simulation.steps == 14
    np.testing.assert_equal(state, kept)

    other = begun_simulation(lambda: Named((2,)), 2)
    assert state["lanes"] is None  # Named shows none
    other.set_state(state)

    np.testing.assert_equal(other.get_state(), kept)
    assert other.lane_return is not state["lane_return"]
    assert not other.has_begun


def test_a_reset_makes_no_step():
    simulation = play(begun_simulation(lambda: StepNumber((2,))), 5)

    assert [row[0] for row in rows(simulation)] == [0, 1, 2, 2, 3, 4, 4, 5]
