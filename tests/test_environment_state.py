import multiprocessing
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from worlds import Chance, Named, names

from dqn_lab.environments.atari import Atari
from dqn_lab.environments.catch import Catch
from dqn_lab.environments.environment_state import (
    get_environment_state,
    set_environment_state,
    why_inexact,
)
from dqn_lab.environments.lanes import Lanes


class Saving(Chance):
    """A user's environment that saves itself."""

    def get_state(self):
        return {"place": self.place, "generator": self.np_random.bit_generator.state}

    def set_state(self, state):
        self.place = state["place"]
        self.np_random.bit_generator.state = state["generator"]


class Counting(gymnasium.Wrapper):
    """A user's wrapper that shows nothing of what it counts."""


class SavingWrapper(gymnasium.Wrapper):
    """A user's wrapper that answers for what it wraps too."""

    penalty = 0.0

    def step(self, action):
        observation, reward, *rest = super().step(action)
        self.penalty += 0.5
        return observation, reward - self.penalty, *rest

    def get_state(self):
        return {"penalty": self.penalty, "env": get_environment_state(self.env)}

    def set_state(self, state):
        self.penalty = state["penalty"]
        set_environment_state(self.env, state["env"])


class SavingVector(SyncVectorEnv):
    """A user's vector environment that saves itself."""

    def get_state(self):
        return {"lanes": [get_environment_state(each) for each in self.envs], "ended": self._autoreset_envs}

    def set_state(self, state):
        for each, saved in zip(self.envs, state["lanes"], strict=True):
            set_environment_state(each, saved)
        self._autoreset_envs = state["ended"]


class Settings(Named):
    """Shows whatever a test asks for."""

    def __init__(self, shown=None):
        super().__init__()
        self.shown = shown

    def get_state(self):
        return self.shown

    def set_state(self, state):
        self.shown = state


def game(name):
    """An Atari game whose every rule that has a memory is on."""
    return lambda: Atari(
        name, repeat_action_probability=0.25, frame_skip=(3, 5), noop_max=30, fire_on_start=True, frame_cap=900
    )


def registered(name, **kwargs):
    return lambda: gymnasium.make(name, **kwargs)


def pendulum():
    return wrappers.DiscretizeAction(gymnasium.make("Pendulum-v1"), bins=5)


def many_wrappers():
    return wrappers.RecordEpisodeStatistics(wrappers.DtypeObservation(gymnasium.make("Acrobot-v1"), np.float32))


def next_step_vector():
    return SavingVector([Catch, Catch], autoreset_mode=AutoresetMode.NEXT_STEP)


# name -> (what makes an environment, lanes, steps before the save)
CASES = {
    "breakout": (game("breakout"), 2, 150),
    "pong": (game("pong"), 2, 150),
    "seaquest": (game("seaquest"), 2, 150),
    "space_invaders": (game("space_invaders"), 2, 150),
    "qbert": (game("qbert"), 1, 150),
    "Catch-v0": (registered("dqn_lab/Catch-v0"), 3, 27),  # every lane ends in the step of the save
    "kaixhin": (lambda: Catch("kaixhin"), 2, 30),
    "CartPole-v1": (registered("CartPole-v1"), 3, 40),
    "MountainCar-v0": (registered("MountainCar-v0"), 2, 150),  # truncated 50 steps later
    "MountainCar-v0, just truncated": (registered("MountainCar-v0"), 2, 200),
    "Acrobot-v1": (registered("Acrobot-v1", max_episode_steps=60), 2, 100),
    "Acrobot-v1, just reset": (registered("Acrobot-v1"), 2, 0),
    "Pendulum-v1": (pendulum, 2, 30),
    "wrappers": (many_wrappers, 2, 30),
    "user's": (lambda: wrappers.TimeLimit(Saving(), 20), 2, 30),
    "user's wrapper": (lambda: SavingWrapper(wrappers.TimeLimit(Catch(), 7)), 2, 30),
    "user's vector": (next_step_vector, None, 9),
}


def started(case):
    make, num_envs, steps = CASES[case]
    lanes = Lanes(make, num_envs)
    lanes.reset(list(range(5, 5 + lanes.num_envs)))
    play(lanes, steps, np.random.default_rng(1))
    return lanes


def play(lanes, steps, actions):
    """What each step brought, to the bit."""
    return [shown(lanes.step(actions.integers(lanes.num_actions, size=lanes.num_envs))) for _ in range(steps)]


def shown(step):
    first = step.first_observation[step.begun]
    others = (step.reward, step.terminated, step.truncated, step.life_lost, step.frames, step.acted, step.begun)
    return [(each.dtype.str, each.shape, each.tobytes()) for each in (step.observation, first, *others)]


def first_difference(steps, others):
    return next((number for number, (one, other) in enumerate(zip(steps, others, strict=True)) if one != other), None)


def go_on(case, state, steps):
    make, num_envs, _ = CASES[case]
    lanes = Lanes(make, num_envs)
    lanes.set_state(state)
    return play(lanes, steps, np.random.default_rng(2))


@pytest.fixture(scope="module")
def new_process():
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        yield pool


# --- exactly as before ---------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_lanes_go_on_in_a_new_process_bit_for_bit(case, new_process):
    lanes = started(case)
    assert lanes.why_inexact() is None
    elsewhere = new_process.submit(go_on, case, lanes.get_state(), 300)

    assert first_difference(play(lanes, 300, np.random.default_rng(2)), elsewhere.result()) is None


def test_the_cases_play_past_ends_cuts_and_lost_lives():
    def counts(case):
        steps = play(started(case), 300, np.random.default_rng(2))
        return [sum(sum(step[2 + field][2]) for step in steps) for field in (1, 2, 3)]

    terminated, truncated, lives_lost = np.add(counts("breakout"), counts("pong"))
    assert min(terminated, truncated, lives_lost) > 0
    assert counts("MountainCar-v0") == [0, 4, 0]


def test_a_lane_that_ends_in_the_step_of_the_save_has_begun_its_next_episode():
    lanes, other = Lanes(Catch, 1), Lanes(Catch, 1)
    lanes.reset([3])
    assert [play(lanes, 1, np.random.default_rng(0))[0][3][2] for _ in range(9)][-1] == b"\x01"

    other.set_state(lanes.get_state())

    steps, others = (play(each, 100, np.random.default_rng(0)) for each in (lanes, other))
    assert first_difference(steps, others) is None


def test_a_time_limit_counts_on():
    lanes, other = (Lanes(registered("MountainCar-v0", max_episode_steps=10), 1) for _ in range(2))
    lanes.reset([3])
    play(lanes, 7, np.random.default_rng(0))
    other.set_state(lanes.get_state())

    assert [other.step(np.array([1])).truncated.item() for _ in range(4)] == [False, False, True, False]


def test_lanes_that_wait_for_their_reset_wait_on_and_show_their_newest_observations():
    lanes, other = (Lanes(lambda: Settings([]), 2, autoreset=AutoresetMode.DISABLED) for _ in range(2))
    lanes.reset()
    for _ in range(3):
        last = lanes.step(np.zeros(2, int))
    assert last.terminated.all()
    other.set_state(lanes.get_state())

    assert names(other.reset(None, np.array([True, False]))) == [0, 3]
    with pytest.raises(AssertionError):  # gymnasium's own guard: the second lane was not reset
        other.step(np.zeros(2, int))


def test_a_state_can_be_set_twice_and_is_not_changed_by_it():
    lanes = started("CartPole-v1")
    state = lanes.get_state()

    assert first_difference(go_on("CartPole-v1", state, 50), go_on("CartPole-v1", state, 50)) is None


@pytest.mark.parametrize("case", CASES)
def test_a_state_is_made_of_plain_values_that_nothing_changes_any_more(case):
    lanes = started(case)
    state = lanes.get_state()
    before = repr(leaves(state))
    assert all(type(leaf) in (str, int, float, bool, bytes, np.ndarray, type(None)) for leaf in leaves(state))

    play(lanes, 20, np.random.default_rng(0))

    assert repr(leaves(state)) == before
    assert repr(leaves(lanes.get_state())) != before


def leaves(value):
    if type(value) is dict:
        assert all(type(key) is str for key in value)
        return [leaf for each in value.values() for leaf in leaves(each)]
    return [leaf for each in value for leaf in leaves(each)] if type(value) is list else [value]


def test_numbers_of_numpy_and_tuples_come_back_as_numbers_and_lists():
    shown = {"a": np.float32(0.1), "b": np.int64(3), "c": (1, [None, True]), "d": np.arange(3), "e": b"x", "f": "y"}
    environment, other = Settings(shown), Settings()

    set_environment_state(other, get_environment_state(environment))

    assert repr(other.shown) == repr(shown | {"c": [1, [None, True]]})
    assert not np.shares_memory(other.shown["d"], shown["d"])


# --- what is exact -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (Named, "Named has no get_state and set_state"),
        (lambda: wrappers.TimeLimit(Named(), 5), "Named has no get_state and set_state"),
        (lambda: Counting(Catch()), "Counting has no get_state and set_state"),
        (lambda: wrappers.TimeLimit(Counting(Catch()), 5), "Counting has no get_state and set_state"),
        (lambda: wrappers.TransformReward(Catch(), abs), "TransformReward has no get_state and set_state"),
        (lambda: wrappers.FrameStackObservation(Catch(), 2), "FrameStackObservation has no get_state and set_state"),
        (lambda: SyncVectorEnv([Catch]), "SyncVectorEnv has no get_state and set_state"),
        (lambda: gymnasium.make_vec("CartPole-v1", 2), "CartPoleVectorEnv has no get_state and set_state"),
    ],
)
def test_what_shows_no_state_is_named(make, reason):
    lanes = Lanes(make, None)
    lanes.reset()

    assert lanes.why_inexact() == reason
    with pytest.raises(ValueError, match=f"exactly or not at all. Received: {reason}"):
        lanes.set_state(lanes.get_state())


def test_a_subclass_of_a_known_environment_may_keep_more():
    class Windy(gymnasium.envs.classic_control.CartPoleEnv):
        pass

    assert why_inexact(Windy()) == "Windy has no get_state and set_state"


def test_one_inexact_lane_makes_the_lanes_inexact():
    environments = iter([Settings(), Named()])
    assert Lanes(lambda: next(environments), 2).why_inexact() == "Named has no get_state and set_state"


def test_an_environment_may_say_itself_that_it_is_inexact():
    class Remote(Settings):
        def why_inexact(self):
            return "the server forgets"

    assert why_inexact(wrappers.TimeLimit(Remote(), 5)) == "the server forgets"
    with pytest.raises(ValueError, match="exactly or not at all. Received: the server forgets"):
        set_environment_state(Remote(), get_environment_state(Remote()))


def test_of_an_inexact_environment_the_rest_is_shown():
    environment = wrappers.TimeLimit(Counting(wrappers.TimeLimit(Catch(), 3)), 5)
    environment.reset(seed=0)

    limit, counting, inner, catch = get_environment_state(environment)["layers"]

    assert limit == {"name": "TimeLimit", "state": {"_elapsed_steps": 0}}
    assert counting == {"name": "Counting", "state": None}
    assert (inner["name"], catch["state"]["variant"]) == ("TimeLimit", "bsuite")


def test_an_object_that_passes_the_question_on_does_not_save_itself():
    class Open(gymnasium.Wrapper):
        def __getattr__(self, name):
            return getattr(self.env, name)

    assert why_inexact(Open(Catch())) == "Open has no get_state and set_state"


# --- what is refused -----------------------------------------------------------------------------


def saved(make, num_envs=1):
    lanes = Lanes(make, num_envs)
    lanes.reset([0] * num_envs)
    return lanes.get_state()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda state: None, "what `get_state` returned for CartPole-v1. Received: no ended, environments, obser"),
        (lambda state: {"ended": state["ended"]}, "Received: no environments, observation"),
        (lambda state: state | {"ended": None}, r"has `ended` of bool\[2\]. Received: ended=None"),
        (lambda state: state | {"observation": np.zeros((2, 3))}, r"float32\[2, 4\]. Received: .*float64\[2, 3\]"),
        (lambda state: state | {"environments": []}, "must be of 2 environments. Received: environments=0"),
        (lambda state: state | {"environments": None}, "must be of 2 environments. Received: environments=None"),
        (lambda state: state | {"environments": [{"layers": 1}] * 2}, r"CartPoleEnv. Received: layers=\[\]"),
        (
            lambda state: state | {"environments": [{}, {}]},
            "`get_state` returned for an environment. Received: no",
        ),
        (lambda state: state | saved(registered("CartPole-v1"), 3), r"has `ended` of bool\[2\]. Received: .*bool\[3\]"),
        (
            lambda state: state | {"environments": saved(registered("Acrobot-v1"), 2)["environments"]},
            r"TimeLimit of OrderEnforcing of PassiveEnvChecker of CartPoleEnv. Received: layers=\[.*'AcrobotEnv'\]",
        ),
        (
            lambda state: state | {"environments": [{"layers": [None] * 4}] * 2},
            r"PassiveEnvChecker of CartPoleEnv. Received: layers=\[None, None, None, None\]",
        ),
        (
            lambda state: emptied(state, "CartPoleEnv"),
            "returned for CartPoleEnv. Received: no state, steps_beyond_terminated, generator",
        ),
        (lambda state: emptied(state, "TimeLimit"), "returned for TimeLimit. Received: no _elapsed_steps"),
    ],
)
def test_a_wrong_state_is_refused_in_one_line_and_nothing_is_changed(change, text):
    lanes = Lanes(registered("CartPole-v1"), 2)
    lanes.reset([1, 2])
    state = lanes.get_state()

    with pytest.raises(ValueError, match=text) as raised:
        lanes.set_state(change(lanes.get_state()))

    assert "\n" not in str(raised.value)
    assert repr(leaves(lanes.get_state())) == repr(leaves(state))


def emptied(state, name):
    """The state without what the last lane's layer of this name shows."""
    for layer in state["environments"][-1]["layers"]:
        if layer["name"] == name:
            layer["state"] = {}
    return state


def test_a_generator_of_another_kind_is_refused():
    state = saved(registered("CartPole-v1"))
    state["environments"][0]["layers"][-1]["state"]["generator"]["bit_generator"] = "SFC64"
    with pytest.raises(ValueError, match="The generator's state must be one of PCG64. Received: generator="):
        Lanes(registered("CartPole-v1"), 1).set_state(state)


def test_lanes_that_were_never_reset_have_no_state():
    with pytest.raises(ValueError, match=r"Catch: get_state\(\) needs running lanes: call reset\(\) first. Received"):
        Lanes(Catch, 2).get_state()


@pytest.mark.parametrize("value", [{1, 2}, deque(), {3: 4}, np.array([None]), SimpleNamespace(), [1, (2, object())]])
def test_a_users_state_of_something_else_is_refused_with_its_name(value):
    with pytest.raises(TypeError, match="^Settings: a state must be made of dicts with str keys, .* Received: a value"):
        get_environment_state(Settings({"inner": value}))
