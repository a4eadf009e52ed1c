import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from worlds import (
    Breaking,
    Chance,
    Game,
    Named,
    OldObservation,
    OldReset,
    OldStep,
    Spaces,
    StepNumber,
    names,
)

from dqn_lab.environments.checked_environment import environment_name
from dqn_lab.environments.lanes import Lanes

NEXT_STEP, SAME_STEP, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED


def vector_of(*environments, mode):
    return lambda: SyncVectorEnv([lambda each=each: each for each in environments], autoreset_mode=mode)


def begun_lanes(make_environment, num_envs=1, **kwargs):
    lanes = Lanes(make_environment, num_envs, **kwargs)
    lanes.reset([7] * lanes.num_envs)
    return lanes


def take(lanes, steps, read=lambda step: step):
    """Returns what was read of each step; observations are valid only until the next one."""
    return [read(lanes.step(np.zeros(lanes.num_envs, np.int64))) for _ in range(steps)]


# --- what a step brings ------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_a_lane_that_resets_in_the_same_step_gives_its_final_and_its_first_observation(end):
    lanes = begun_lanes(lambda: Named((3,), end))

    steps = take(lanes, 4, lambda s: (s.begun.item(), names(s.observation), names(s.first_observation[s.begun])))

    assert steps == [(False, [1], []), (False, [2], []), (True, [3], [100]), (False, [101], [])]


def test_termination_and_truncation_are_told_apart():
    terminated = take(begun_lanes(lambda: Named((1,), "terminated")), 1)[0]
    truncated = take(begun_lanes(lambda: Named((1,), "truncated")), 1)[0]

    assert (terminated.terminated.tolist(), terminated.truncated.tolist()) == ([True], [False])
    assert (truncated.terminated.tolist(), truncated.truncated.tolist()) == ([False], [True])


def test_every_step_of_a_lane_that_resets_in_the_same_step_was_acted_in():
    assert all(step.acted.all() for step in take(begun_lanes(lambda: Named((2,)), 3), 7))


def test_lanes_end_each_in_their_own_step():
    lengths = iter([(2,), (3,), (None,)])
    lanes = begun_lanes(lambda: Named(next(lengths)), 3)

    ends = [step.terminated.tolist() for step in take(lanes, 6)]

    assert ends == [[t % 2 == 0, t % 3 == 0, False] for t in range(1, 7)]


def test_a_lane_that_resets_in_a_step_of_its_own_says_that_it_did_not_act():
    lanes = begun_lanes(vector_of(Named((2,)), mode=NEXT_STEP), None)

    steps = take(lanes, 5, lambda s: (names(s.observation), s.acted.item(), s.begun.item(), s.terminated.item()))

    assert steps == [
        ([1], True, False, False),
        ([2], True, False, True),
        ([100], False, True, False),
        ([101], True, False, False),
        ([102], True, False, True),
    ]


def test_a_lane_that_is_reset_after_its_end_acts_in_its_next_step():
    lanes = begun_lanes(vector_of(Named((2,)), mode=NEXT_STEP), None)
    take(lanes, 2)
    lanes.reset()

    assert take(lanes, 1, lambda s: (names(s.observation), s.acted.item())) == [([101], True)]


def test_lanes_that_do_not_reset_themselves_wait_for_their_reset():
    lanes = begun_lanes(lambda: Named((2,)), 2, autoreset=DISABLED)
    assert not lanes.resets_itself and not lanes.drops_rows
    last = take(lanes, 2)[-1]
    assert last.terminated.all() and not last.begun.any()

    observation = lanes.reset([None, 5], np.array([False, True]))

    assert names(observation) == [2, 100]


def test_rewards_are_raw_and_of_double_precision():
    step = take(begun_lanes(lambda: Named(reward=16_777_217.0)), 1)[0]

    assert step.reward.dtype == np.float64
    assert step.reward.tolist() == [16_777_217.0]


# --- what infos say ------------------------------------------------------------------------------


def test_frames_and_lost_lives_are_those_of_the_step_also_where_it_ends_a_game():
    lanes = begun_lanes(lambda: Game(length=2, lives=(1, 0), frames=3), 2)

    steps = [(s.frames.tolist(), s.life_lost.tolist()) for s in take(lanes, 3)]

    assert steps == [([3, 3], [False, False]), ([3, 3], [True, True]), ([3, 3], [False, False])]


def test_frames_and_lost_lives_are_read_where_lanes_wait_for_their_reset_too():
    lanes = begun_lanes(lambda: Game(length=2, lives=(1, 0), frames=3), 2, autoreset=DISABLED)
    step = take(lanes, 2)[-1]

    assert (step.frames.tolist(), step.life_lost.tolist()) == ([3, 3], [True, True])


def test_what_the_reset_says_is_not_taken_for_the_step_before_it():
    step = take(begun_lanes(lambda: Silent(length=1)), 1)[0]

    assert step.frames.tolist() == [1]


def test_a_step_stands_for_one_frame_where_the_environment_says_nothing():
    step = take(begun_lanes(lambda: Named((1,))), 1)[0]

    assert step.frames.tolist() == [1]
    assert step.life_lost.tolist() == [False]


def test_an_info_that_only_one_lane_has_is_not_taken_for_the_others():
    environments = iter([Game(frames=4, size=1), Silent(frames=4, size=1)])
    lanes = begun_lanes(lambda: next(environments), 2)

    assert take(lanes, 1)[0].frames.tolist() == [4, 1]


class Silent(Game):
    def step(self, action):
        return *super().step(action)[:4], {}


@pytest.mark.parametrize("frames", [[1, 2], np.zeros((2, 2)), "many", None])
def test_an_info_of_the_same_name_that_means_something_else_is_left_alone(frames):
    lanes = begun_lanes(lambda: Game(frames=frames, size=1), 2)

    assert take(lanes, 1)[0].frames.tolist() == [1, 1]


# --- actions -------------------------------------------------------------------------------------


@pytest.mark.case("B081")
def test_actions_are_shifted_at_the_border_only():
    made = []

    def make():
        made.append(Named(None, num_actions=2, start=1))
        return made[-1]

    lanes = begun_lanes(make, 2)
    assert lanes.num_actions == 2

    lanes.step(np.array([0, 1]))
    lanes.step(np.array([1, 1]))

    assert [environment.actions for environment in made] == [[1, 2], [2, 2]]


@pytest.mark.parametrize("action", [[0, 2], [-1, 0], [0, 1_000]])
def test_an_action_out_of_range_reaches_no_environment(action):
    made = []

    def make():
        made.append(Named(None, num_actions=2))
        return made[-1]

    lanes = begun_lanes(make, 2)

    with pytest.raises(ValueError, match=r"Actions must be 0\.\.1\. Received: action=\["):
        lanes.step(np.array(action))
    assert [environment.actions for environment in made] == [[], []]


# --- resets and seeds ----------------------------------------------------------------------------


def test_each_lane_is_reset_with_its_own_seed_once():
    made = []

    def make():
        made.append(Named())
        return made[-1]

    lanes = Lanes(make, 3)
    assert [environment.seeds for environment in made] == [[], [], []]

    lanes.reset([5, 6, 9])

    assert [environment.seeds for environment in made] == [[5], [6], [9]]


def test_a_reset_without_seeds_goes_on_with_the_generators():
    lanes = begun_lanes(Chance)
    first = lanes.reset([3]).copy()
    second = lanes.reset()

    assert not np.array_equal(first, second)


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP])
def test_a_users_vector_environment_seeds_its_lanes_from_the_first_lanes_seed(mode):
    environments = [Named(), Named()]
    lanes = Lanes(vector_of(*environments, mode=mode), None)

    lanes.reset([40, 90])

    assert [environment.seeds for environment in environments] == [[40], [41]]


@pytest.mark.parametrize("mode", [None, "sync"])
def test_gymnasiums_vectors_of_cartpole_are_seeded_and_stepped(mode):
    lanes = Lanes(lambda: gymnasium.make_vec("CartPole-v1", 2, vectorization_mode=mode), None)

    first = lanes.reset([40, 90]).copy()
    step = lanes.step(np.array([0, 1]))
    again = lanes.reset([40, 90])

    assert lanes.name == "CartPole-v1"
    assert step.reward.tolist() == [1.0, 1.0]
    np.testing.assert_array_equal(first, again)


def test_a_vector_environment_of_worker_processes_is_stepped_and_closed():
    lanes = Lanes(lambda: AsyncVectorEnv([Named, Named]), None)
    lanes.reset([1, 2])

    assert names(lanes.step(np.array([0, 1])).observation) == [1, 1]
    lanes.close()


# --- numbers of lanes ----------------------------------------------------------------------------


def test_a_vector_environment_keeps_its_own_number_of_lanes():
    assert Lanes(vector_of(Named(), Named(), mode=NEXT_STEP), None).num_envs == 2
    assert Lanes(vector_of(Named(), Named(), mode=NEXT_STEP), 2).num_envs == 2


def test_another_number_of_lanes_than_the_vector_environments_is_refused():
    with pytest.raises(ValueError, match=r"SyncVectorEnv: the vector environment has 2 lanes\. Received: num_envs=3"):
        Lanes(vector_of(Named(), Named(), mode=NEXT_STEP), 3)


def test_none_is_one_lane():
    assert Lanes(Named, None).num_envs == 1


@pytest.mark.parametrize(
    ("num_envs", "error", "text"),
    [
        (0, ValueError, "`num_envs` must be at least 1. Received: num_envs=0"),
        (2.0, TypeError, "`num_envs` must be an integer. Received: num_envs=2.0"),
        (True, TypeError, "`num_envs` must be an integer. Received: num_envs=True"),
    ],
)
def test_the_number_of_lanes_is_checked(num_envs, error, text):
    with pytest.raises(error) as raised:
        Lanes(Named, num_envs)
    assert str(raised.value) == text


def test_a_vector_environment_that_waits_for_resets_is_refused():
    text = r"SyncVectorEnv: a vector environment must reset its lanes itself\. Received: autoreset_mode=.*DISABLED"
    with pytest.raises(ValueError, match=text):
        Lanes(vector_of(Named(), mode=DISABLED), None)


# --- one environment a lane ----------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda e: e, gymnasium.wrappers.OrderEnforcing])
def test_a_factory_that_returns_the_same_environment_again_is_refused(wrap):
    environment = Named()

    with pytest.raises(ValueError, match="must return a new environment at each call.*Received: make_environment="):
        Lanes(lambda: wrap(environment), 2)


def test_lanes_know_whether_they_share_an_environment():
    environment = Named()

    assert Lanes(lambda: environment, 1).shares_environments(Lanes(lambda: environment, 1))
    assert not Lanes(Named, 1).shares_environments(Lanes(Named, 1))


def test_lanes_know_whether_they_share_a_vector_environment():
    vector = vector_of(Named(), mode=NEXT_STEP)()
    worker = gymnasium.make_vec("CartPole-v1", 2)

    assert Lanes(lambda: vector, None).shares_environments(Lanes(lambda: vector, None))
    assert Lanes(lambda: worker, None).shares_environments(Lanes(lambda: worker, None))
    assert not Lanes(lambda: vector, None).shares_environments(Lanes(lambda: worker, None))


def test_closing_closes_every_environment():
    made = []

    def make():
        made.append(Named())
        return made[-1]

    Lanes(make, 2).close()

    assert [environment.closed for environment in made] == [True, True]


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.case("B079")
def test_continuous_actions_are_refused_with_the_environments_id():
    with pytest.raises(ValueError) as raised:
        Lanes(lambda: gymnasium.make("Pendulum-v1"), 1)

    text = str(raised.value)
    assert text.startswith("Pendulum-v1: deep Q-learning needs a Discrete action space. Received: action_space=Box(")


@pytest.mark.parametrize("space", [MultiDiscrete([2, 2]), Box(-1, 1, (1,)), Dict(a=Discrete(2))])
@pytest.mark.parametrize("vector", [False, True])
def test_actions_that_are_not_discrete_are_refused(space, vector):
    make = vector_of(Spaces(space), mode=NEXT_STEP) if vector else lambda: Spaces(space)
    name = "SyncVectorEnv" if vector else "Spaces"

    with pytest.raises(ValueError, match=f"{name}: deep Q-learning needs a Discrete action space. Received: action_sp"):
        Lanes(make, None)


@pytest.mark.parametrize("space", [Dict(a=Box(0, 1, (2,))), Discrete(4), MultiDiscrete([2, 2])])
@pytest.mark.parametrize("vector", [False, True])
def test_observations_that_are_no_box_are_refused(space, vector):
    environment = Spaces(observation_space=space)
    make = vector_of(environment, mode=NEXT_STEP) if vector else lambda: environment
    name = "SyncVectorEnv" if vector else "Spaces"

    with pytest.raises(ValueError, match=f"{name}: observations must be of a Box space. Received: observation_space="):
        Lanes(make, None)


def test_lanes_of_different_spaces_are_refused():
    environments = iter([Spaces(), Spaces(Discrete(3))])

    with pytest.raises(ValueError, match=r"All lanes must have the same spaces\. Received: .*action"):
        Lanes(lambda: next(environments), 2)


@pytest.mark.parametrize("made", [3, None, "CartPole-v1", Named])
def test_a_factory_of_something_else_is_refused(made):
    text = "make_environment must return a gymnasium environment whose reset.* Received: an object of "
    with pytest.raises(TypeError, match=text):
        Lanes(lambda: made, 1)


def test_a_factory_that_returns_something_else_the_second_time_is_refused():
    made = iter([Named(), None])

    with pytest.raises(
        TypeError, match="must return a gymnasium environment.* Received: an object of builtins.NoneType"
    ):
        Lanes(lambda: next(made), 2)


def test_an_environment_in_place_of_a_factory_is_refused():
    with pytest.raises(TypeError, match="make_environment must be a callable without arguments.* Received: make_env"):
        Lanes(Named(), 1)


@pytest.mark.case("B078")
@pytest.mark.parametrize(
    ("make", "what"),
    [
        (OldReset, "OldReset: its reset() takes no seed and options"),
        (OldObservation, "OldObservation: its reset() returned no (observation, info)"),
        (OldStep, "OldStep: its step() returned 4 value(s)"),
        # gymnasium's own wrappers unpack what they get before it reaches the border.
        (lambda: gymnasium.wrappers.TimeLimit(OldStep(), 9), "OldStep: its step() returned another number of values"),
        (
            lambda: gymnasium.wrappers.FrameStackObservation(OldObservation(), 2),
            "OldObservation: its reset() returned no (observation, info)",
        ),
    ],
)
def test_the_old_gym_api_is_named_in_one_line(make, what):
    with pytest.raises(TypeError) as raised:
        take(begun_lanes(make), 1)

    assert str(raised.value).startswith(f"{what}; this is the old gym API. A gymnasium environment is needed: ")
    assert str(raised.value).endswith("step(action) returns 5 values.")
    assert "\n" not in str(raised.value)


class Untidy(Named):
    """Breaks by itself, in words that sound like the old API's."""

    def step(self, action):
        return [value for value, _ in [(1, 2, 3)]]

    def reset(self, *, seed=None, options=None):
        if seed == 7:
            return super().reset(seed=seed)
        raise ValueError("too many values to unpack") if seed == 8 else TypeError("unsupported operand")


def test_an_environments_own_errors_pass_as_they_are():
    with pytest.raises(ValueError, match="^too many values to unpack"):
        take(begun_lanes(Untidy), 1)
    with pytest.raises(ValueError, match="^too many values to unpack"):
        Lanes(Untidy, 1).reset([8])
    with pytest.raises(TypeError, match="^unsupported operand"):
        Lanes(Untidy, 1).reset([9])
    with pytest.raises(RuntimeError, match="^boom$"):
        take(begun_lanes(lambda: Breaking(1)), 1)


# --- names ---------------------------------------------------------------------------------------


def test_an_environment_is_named_by_its_id_or_its_class():
    assert environment_name(gymnasium.make("CartPole-v1")) == "CartPole-v1"
    assert environment_name(gymnasium.wrappers.TimeLimit(Named(), 3)) == "Named"
    assert Lanes(StepNumber, 1).name == "StepNumber"


class Slipping(gymnasium.Env):
    """Returns whatever a test asks for."""

    observation_space = gymnasium.spaces.Box(0, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, **slips):
        self.answer = {"observation": np.zeros(3, np.float32), "reward": 1.0, "terminated": False, "info": {}} | slips

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action):
        one = self.answer
        return one["observation"], one["reward"], one["terminated"], False, one["info"]


@pytest.mark.parametrize(
    ("slips", "error", "text"),
    [
        ({"observation": np.zeros(4, np.float32)}, ValueError, r"shape of their space, \(3,\). Received: shape=\(4,\)"),
        ({"observation": None}, ValueError, r"shape of their space, \(3,\). Received: None"),
        ({"reward": "1"}, TypeError, "a reward must be one real number. Received: reward='1'"),
        ({"reward": 1j}, TypeError, "a reward must be one real number. Received: reward=1j"),
        ({"reward": np.zeros(2)}, TypeError, "a reward must be one real number"),
        ({"terminated": "False"}, TypeError, "`terminated` must be True or False. Received: 'False'"),
        ({"info": None}, TypeError, "`info` must be a dict. Received: info=None"),
    ],
)
def test_what_an_environment_returns_amiss_is_said_with_its_name(slips, error, text):
    lanes = Lanes(lambda: Slipping(**slips), 1)
    lanes.reset()
    with pytest.raises(error, match=f"Slipping: .*{text}"):
        lanes.step(np.zeros(1, int))


def test_a_reward_in_an_array_of_one_is_that_number():
    lanes = Lanes(lambda: Slipping(reward=np.array([2.5])), 1)
    lanes.reset()
    assert lanes.step(np.zeros(1, int)).reward.tolist() == [2.5]


def test_a_first_observation_of_another_shape_is_refused():
    class Wrong(Slipping):
        def reset(self, *, seed=None, options=None):
            return np.zeros(2, np.float32), {}

    with pytest.raises(ValueError, match=r"Wrong: observations must have the shape of their space"):
        Lanes(Wrong, 1).reset()
