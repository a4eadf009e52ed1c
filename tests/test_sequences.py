import threading

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st
from sequence_contract import SETTINGS, SequenceContract, everything, hashed, stored
from worlds import Breaking, Chance, Game, Named, OldStep, StepNumber, names

from dqn_lab.saved_state import read_state, write_state
from dqn_lab.schedules import LinearSchedule
from dqn_lab.sequences.environment import EnvironmentSequence
from dqn_lab.sequences.synchronous import SynchronousSequence


class Chance2(Chance):
    def __init__(self):
        super().__init__()
        self.action_space = gymnasium.spaces.Discrete(2)


class Fresh(Named):
    """Makes a new array for every observation."""

    def _observe(self):
        return super()._observe().copy()


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


# --- transitions ---------------------------------------------------------------------------------


@pytest.mark.case("B007")
def test_a_truncated_episode_bootstraps_from_its_own_final_observation():
    sequence = small(lambda: Named((3,), "truncated"), Pairs, replay_capacity_steps=16, replay_min_steps=3)
    sequence.fill()  # a0 a1 a2 a3, then b0

    batch = sequence.get_transitions(np.array([2]))

    assert batch["state"].tolist() == [[1, 2]]
    assert batch["next_state"].tolist() == [[2, 3]]
    assert batch["reward"].tolist() == [1.0]
    np.testing.assert_allclose(batch["discount"], [0.99])
    np.testing.assert_allclose(batch["reward"] + batch["discount"] * 10, [10.9], rtol=1e-6)
    assert sorted(named(sequence)) == [(0, 0), (0, 1), (1, 2)]


def test_a_terminated_episode_does_not_bootstrap():
    sequence = small(lambda: Named((3,)), Pairs, replay_min_steps=3)

    sequence.fill()

    np.testing.assert_allclose(named(sequence)[(1, 2)][:2], [1.0, 0.0])


def test_several_steps_are_summed_with_their_discounts_and_cut_at_the_end_of_a_game():
    sequence = small(lambda: Named((4,), reward=lambda t: 10.0**t), n_step=3, gamma=0.5, replay_min_steps=4)

    sequence.fill()

    assert named(sequence) == {
        (0,): (10 + 50 + 250, 0.125, [3.0]),
        (1,): (100 + 500 + 2_500, 0.0, [4.0]),
        (2,): (1_000 + 5_000, 0.0, [4.0]),
        (3,): (10_000, 0.0, [4.0]),
    }


def test_several_steps_bootstrap_from_the_final_observation_of_a_truncated_game():
    sequence = small(lambda: Named((2,), "truncated"), n_step=3, gamma=0.5, replay_min_steps=3)

    sequence.fill()

    assert named(sequence) == {(0,): (1.5, 0.25, [2.0]), (1,): (1.0, 0.5, [2.0])}


def transitions_by_hand(environment, lengths, end, span, n_step, gamma):
    """Works out what may be drawn after the steps an endless ring has seen, from `Named`'s rule alone."""
    found, action = {}, 0
    for episode in range(environment.episode + 1):
        length = lengths[min(episode, len(lengths) - 1)]
        played = environment.elapsed if episode == environment.episode else length
        for t in range(played):
            taken, action = environment.actions[action], action + 1
            until = min(t + n_step, length)
            if until > played:
                continue  # the window goes on
            state, following = (
                tuple(100 * episode + max(0, last - k) for k in range(span - 1, -1, -1)) for last in (t, until)
            )
            reward = sum(gamma ** (k - t) * (k + 1) for k in range(t, until))
            ends = until == length and end == "terminated"
            found[(environment.name, *state)] = (taken, reward, 0.0 if ends else gamma ** (until - t), following)
    return found


@given(
    lanes=st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=3), min_size=1, max_size=3),
    end=st.sampled_from(["terminated", "truncated"]),
    mode=st.sampled_from([None, AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP]),
    span=st.integers(1, 3),
    n_step=st.integers(1, 4),
    steps=st.integers(12, 30),
)
def test_what_may_be_drawn_is_what_was_played(lanes, end, mode, span, n_step, steps):
    made = []

    class Spanned(Pairs):
        def get_states_start(self):
            return span

        def get_feature_by_index(self, index):
            lane = index[:, None] % self.num_envs  # which lane a state comes from belongs to its name
            return np.concatenate([lane, self.replay.observations(index, span)[..., 0]], axis=1)

    def make_one():
        kind = Fresh if mode else Named  # gymnasium's own vectors keep final observations by reference
        made.append(kind(lanes[len(made)], end, reward=lambda t: float(t)))
        made[-1].name = len(made) - 1
        return made[-1]

    def make_all():
        return SyncVectorEnv([make_one] * len(lanes), autoreset_mode=mode)

    sequence = small(
        make_all if mode else make_one,
        Spanned,
        num_envs=len(lanes),
        replay_capacity_steps=120 * len(lanes),
        replay_min_steps=12,
        train_period_steps=len(lanes),
        n_step=n_step,
        gamma=0.5,
    )
    sequence.simulate(steps)

    expected = {}
    for environment in made:
        expected |= transitions_by_hand(environment, environment.lengths, end, span, n_step, 0.5)
    drawn = stored(sequence)
    found = {
        tuple(state.astype(int).tolist()): (action, reward, discount, tuple(following[1:].astype(int).tolist()))
        for state, action, reward, discount, following in zip(
            drawn["state"],
            drawn["action"].tolist(),
            drawn["reward"].tolist(),
            drawn["discount"].tolist(),
            drawn["next_state"],
            strict=True,
        )
    }
    assert found == expected
    assert len(drawn["index"]) == len(expected)


# --- hooks ---------------------------------------------------------------------------------------


class Scaled(Pairs):
    """Depends on an attribute of its own, and on the lanes."""

    def __init__(self, *args, scale, **settings):
        self.scale = scale
        super().__init__(*args, **settings)

    def get_feature_by_index(self, index):
        newest = self.replay.observations(index)[:, 0]
        before = np.where(self.replay.ring.age[self.replay.ring.slot(index)] > 0, index - self.num_envs, index)
        return self.scale * (newest - self.replay.observations(before)[:, 0])

    def get_reward_by_index(self, index):
        return self.scale * self.replay.rewards(index)


def test_hooks_may_use_attributes_and_the_lanes_in_training_and_in_the_twin():
    sequence = small(lambda: Named((9,)), Scaled, scale=7.0, num_envs=4)
    sequence.simulate(20)
    assert sequence[0]["state"].max() == 7.0 == sequence[0]["state"].max()
    assert set(np.ravel(stored(sequence)["state"]).tolist()) == {0.0, 7.0}
    assert set(stored(sequence)["reward"].tolist()) == {7.0}

    twin = sequence.create_validation_instance(0.0, num_envs=3)
    for _ in range(3):
        twin.simulate_single()

    transition = twin.get_latest_transition()
    assert transition["state"].tolist() == [[7.0]] * 3
    assert transition["reward"].tolist() == [7.0] * 3


def test_a_hook_of_terminals_is_asked_in_training_and_in_the_twin():
    class Early(Pairs):
        def get_terminal(self, step):
            return step.observation[:, 0] % 100 == self.early

    Early.early = 2
    sequence = small(lambda: Named((4,)), Early)
    sequence.fill()
    assert {state for state, (_, discount, _) in named(sequence).items() if not discount} == {(0, 1)}

    twin = sequence.create_validation_instance(0.0, num_envs=1)
    ends = []
    for _ in range(4):
        twin.simulate_single()
        ends.append((twin.get_latest_terminal().item(), twin.get_latest_episode_end().item()))
    assert ends == [(False, False), (True, False), (False, False), (False, True)]


@pytest.mark.parametrize(
    ("hook", "call"),
    [
        ("get_states_start()", lambda s: s.get_states_start()),
        ("get_feature_by_index(index)", lambda s: s.get_feature_by_index(np.zeros(1, int))),
        ("get_reward_by_index(index)", lambda s: s.get_reward_by_index(np.zeros(1, int))),
    ],
)
def test_a_missing_hook_is_named(hook, call):
    class Bare(SynchronousSequence):
        pass

    bare = Bare.__new__(Bare)
    with pytest.raises(NotImplementedError) as raised:
        call(bare)
    assert str(raised.value) == f"Bare must define {hook}."


# --- acting --------------------------------------------------------------------------------------


def greedy_to(action):
    return lambda features: np.eye(3)[[action] * len(features)]


def test_actions_are_random_in_the_fill_and_the_policys_after_it():
    sequence = small(lambda: Named(None, num_actions=3), epsilon=0.0, replay_min_steps=30, policy=greedy_to(2))
    sequence.fill()
    assert set(stored(sequence)["action"].tolist()) == {0, 1, 2}

    sequence.simulate(20)

    assert sequence.replay.actions(np.arange(30, 50)).tolist() == [2] * 20
    assert sequence.get_action().tolist() == [2]


def test_of_equal_values_the_first_is_taken():
    sequence = small(lambda: Named(None, num_actions=3), epsilon=0.0, policy=lambda features: np.ones((1, 3)))
    sequence.simulate(20)

    assert sequence.replay.actions(np.arange(4, 20)).tolist() == [0] * 16


def test_a_random_policy_is_epsilon_one_and_without_a_policy_actions_are_uniform():
    for settings in ({"epsilon": 1.0, "policy": greedy_to(2)}, {"epsilon": 0.0}):
        sequence = small(lambda: Named(None, num_actions=3), **settings)
        sequence.simulate(60)
        counts = np.bincount(sequence.replay.actions(np.arange(60)), minlength=3)
        assert counts.min() > 10


def test_epsilon_is_read_at_the_steps_made_so_far():
    read = []
    sequence = small(
        lambda: Named(None, num_actions=3), epsilon=lambda steps: read.append(steps) or 0.25, policy=greedy_to(2)
    )
    assert sequence.epsilon == 0.25
    sequence.simulate(7)

    assert read == [0, 4, 5, 6]


@pytest.mark.case("B030")
def test_epsilon_counts_agent_steps():
    schedule = LinearSchedule(1.0, 0.1, decay_steps=1_000_000)
    sequence = small(Named, epsilon=schedule)
    state = sequence.get_state()

    epsilons = {}
    for steps in (0, 250_000, 500_000, 1_000_000, 2_000_000):
        state["simulation"]["steps"] = steps
        sequence.set_state(state)
        epsilons[steps] = sequence.epsilon

    assert epsilons == pytest.approx({0: 1.0, 250_000: 0.775, 500_000: 0.55, 1_000_000: 0.1, 2_000_000: 0.1})


def test_an_action_belongs_to_the_observation_that_it_was_chosen_by():
    sequence = small(StepNumber, epsilon=0.0, policy=lambda features: np.eye(1_000)[features[:, 0].astype(int)])
    sequence.simulate(50)

    drawn = stored(sequence)
    late = drawn["index"] >= 4
    np.testing.assert_array_equal(drawn["state"][late, 0], drawn["action"][late])
    assert np.count_nonzero(late) == 46


def test_a_policy_is_asked_once_for_all_lanes():
    shapes = []
    sequence = small(Named, num_envs=4, policy=lambda features: shapes.append(features.shape) or np.zeros((4, 2)))
    sequence.simulate(12)

    assert shapes == [(4, 1), (4, 1)]


@pytest.mark.parametrize("shape", [(4, 3), (4, 1), (1, 2), (8, 2), (2,), (4, 2, 1)])
def test_action_values_of_another_shape_are_refused(shape):
    sequence = small(Named, num_envs=4, policy=lambda features: np.zeros(shape))
    sequence.fill()
    text = f"A policy must return action values [N, A] = (4, 2). Received: shape={shape}"

    for call in (sequence.simulate_single, sequence.get_action):
        with pytest.raises(ValueError) as raised:
            call()
        assert str(raised.value) == text

    twin = sequence.create_validation_instance(0.1, num_envs=4)
    twin.policy = sequence.policy
    with pytest.raises(ValueError) as raised:
        twin.simulate_single()
    assert str(raised.value) == text


@pytest.mark.case("B081")
def test_an_environment_whose_actions_begin_at_one_gets_ones_and_twos_alone():
    made = []

    def make():
        made.append(Named((5,), num_actions=2, start=1))
        return made[-1]

    sequence = small(make, num_envs=2, policy=hashed, epsilon=0.5, replay_min_steps=20)
    sequence.simulate(60)
    twin = sequence.create_validation_instance(0.5, num_envs=1)
    twin.policy = hashed
    for _ in range(30):
        twin.simulate_single()

    assert sequence.num_actions == 2 == twin.num_actions
    assert [set(environment.actions) for environment in made] == [{1, 2}] * 3
    assert set(stored(sequence)["action"].tolist()) == {0, 1}


# --- simulating ----------------------------------------------------------------------------------


def test_simulate_takes_whole_decisions():
    sequence = small(Named, num_envs=4)
    sequence.simulate(5)
    assert sequence.steps == 8
    sequence.simulate(0)
    assert sequence.steps == 8


def test_a_fill_of_several_lanes_takes_whole_decisions():
    sequence = small(Named, num_envs=4, replay_min_steps=6)
    sequence.fill()

    assert sequence.steps == 8


@pytest.mark.parametrize(
    ("num_envs", "period", "expected"),
    [
        (1, 3, [(True, 11), (True, 14), (True, 17), (True, 20)]),
        (2, 4, [(True, 12), (True, 16), (True, 20), (True, 24)]),
        (8, 4, [(True, 16), (False, 16), (True, 24), (False, 24)]),
    ],
)
def test_update_k_is_due_every_train_period(num_envs, period, expected):
    sequence = small(Named, num_envs=num_envs, train_period_steps=period, replay_min_steps=8)
    sequence.fill()
    made = []
    for _ in range(4):
        due = sequence.is_step_due()
        sequence.produce_batch(hashed)
        made.append((due, sequence.steps))

    assert made == expected
    assert sequence.batches == 4


def test_no_other_thread_looks_while_a_step_is_made():
    free = []

    class Watching(Named):
        def step(self, action):
            thread = threading.Thread(target=try_lock)
            thread.start()
            thread.join()
            return super().step(action)

    def try_lock():
        free.append(sequence._lock.acquire(blocking=False))
        if free[-1]:
            sequence._lock.release()

    sequence = small(Watching)
    sequence.simulate_single()
    sequence.fill()
    sequence.produce_batch(hashed)

    assert free == [False] * 8


@pytest.mark.case("B027")
def test_a_reward_that_is_no_number_stops_the_sequence_at_its_step():
    sequence = small(lambda: Breaking(37, "reward"), replay_min_steps=20)
    sequence.simulate(36)
    before = sequence.replay.ring.written.copy()

    with pytest.raises(
        FloatingPointError, match=r"not finite at step 37, in lane 0, before update 1\. Received: reward=nan"
    ):
        sequence.simulate_single()

    assert sequence.steps == 36
    np.testing.assert_array_equal(sequence.replay.ring.written, before)


@pytest.mark.parametrize("what", ["raise", "observation"])
def test_what_an_environment_does_wrong_stops_the_sequence_and_stores_nothing(what):
    sequence = small(lambda: Breaking(37, what))
    sequence.simulate(36)

    with pytest.raises((RuntimeError, FloatingPointError), match="^boom$|observation that is not finite"):
        sequence.simulate(5)
    assert (sequence.steps, len(sequence.replay.ring)) == (36, 37)

    sequence.simulate(2)  # goes on with a new episode
    sequence.replay.ring.check_valid()
    assert names(sequence.get_latest_observation()) == [102]
    assert (36,) not in named(sequence)


# --- a user's vector environment -----------------------------------------------------------------


@pytest.mark.case("B076")
def test_rows_of_resets_are_neither_stored_nor_counted():
    sequence = small(lambda: SyncVectorEnv([lambda: Named((3,))] * 2))
    for _ in range(8):
        sequence.simulate_single()

    assert sequence.num_envs == 2
    assert sequence.steps == 12
    assert len(stored(sequence)["index"]) == 12
    assert len(sequence.replay.ring) == 12 + 2 * 3  # final observations, and first ones of the next episodes
    assert named(sequence) == {
        (100 * episode + t,): (1.0, 0.0 if t == 2 else pytest.approx(0.99), [100.0 * episode + t + 1])
        for episode in (0, 1)
        for t in range(3)
    }


@pytest.mark.parametrize("mode", ["sync", None])
def test_gymnasiums_vector_of_cartpole_trains_and_evaluates(mode):
    sequence = small(
        lambda: gymnasium.make_vec("CartPole-v1", 2, vectorization_mode=mode),
        num_envs=2,
        replay_capacity_steps=200,
        policy=hashed,
    )
    sequence.simulate(150)
    twin = sequence.create_validation_instance(1.0, num_envs=8)
    twin.reseed(1)
    for _ in range(60):
        twin.simulate_single()

    assert sequence[0]["state"].shape == (32, 4)
    assert sequence.episodes > 2 and sequence.episode_return_sum == sequence.episode_length_sum
    assert np.all(sequence[0]["reward"] == 1)
    assert twin.num_envs == 2
    assert twin.episode_number.max() > 1


@pytest.mark.case("B083")
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_stacks_of_a_vectorised_emulator_are_plain_observations(mode):
    import ale_py

    def make():
        return ale_py.AtariVectorEnv("breakout", 2, autoreset_mode=mode, max_num_frames_per_episode=60)

    sequence = small(make, replay_capacity_steps=200)
    sequence.simulate(60)
    twin = sequence.create_validation_instance(1.0)
    for _ in range(34):
        twin.simulate_single()

    assert sequence.state_shape == (4, 84, 84) and sequence.state_dtype == np.uint8
    assert sequence[0]["state"].shape == (32, 4, 84, 84)
    assert sequence.steps == 60 and sequence.episodes >= 2
    assert np.all(stored(sequence)["discount"] > 0)  # the frame limit truncates
    assert twin.episode_number.min() >= 1
    newest, before = sequence.get_feature_by_index(np.array([9, 7]))
    np.testing.assert_array_equal(newest[:3], before[1:])  # newest last


# --- inside a fit --------------------------------------------------------------------------------


def test_inside_a_fit_only_its_feed_steps_the_sequence():
    sequence = small(Named)
    feed = sequence.attach(hashed)
    text = "A fit is running on this sequence; only that fit may step it or attach to it."
    for call in (sequence.simulate_single, lambda: sequence.simulate(1), lambda: sequence.attach(hashed)):
        with pytest.raises(RuntimeError) as raised:
            call()
        assert str(raised.value) == text
    assert sequence[0]["state"].shape == (32, 1)

    feed.close()
    sequence.simulate(1)

    assert sequence.steps == 5


def test_a_fit_of_another_model_is_refused():
    with pytest.raises(ValueError, match=r"A sequence is trained on with `agent\.fit\(sequence\)` of a dqn_lab agent"):
        small(Named).on_epoch_begin()


@pytest.mark.parametrize(("name", "value"), [("workers", 2), ("use_multiprocessing", True)])
def test_more_than_one_producer_is_refused(name, value):
    sequence = small(Named)
    setattr(sequence, name, value)

    with pytest.raises(
        ValueError, match=rf"Minibatches must come from one thread, in order\. Received: .*{name}={value}"
    ):
        sequence.attach(hashed)


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"batch_size": 0}, ValueError, "`batch_size` must be at least 1. Received: batch_size=0"),
        ({"batch_size": 1.5}, TypeError, "`batch_size` must be an integer. Received: batch_size=1.5"),
        ({"updates_per_epoch": 0}, ValueError, "`updates_per_epoch` must be at least 1. Received: updates_per_epoch=0"),
        ({"seed": -1}, ValueError, "`seed` must be at least 0. Received: seed=-1"),
        ({"seed": None}, TypeError, "`seed` must be an integer. Received: seed=None"),
        ({"gamma": 1.01}, ValueError, "`gamma` must lie within 0 and 1. Received: gamma=1.01"),
        ({"gamma": np.nan}, ValueError, "`gamma` must lie within 0 and 1. Received: gamma=nan"),
        ({"gamma": "0.9"}, TypeError, "`gamma` must be a number. Received: gamma='0.9'"),
        ({"epsilon": 1.5}, ValueError, "`epsilon` must lie within 0 and 1. Received: epsilon=1.5"),
        ({"epsilon": None}, TypeError, "`epsilon` must be a number. Received: epsilon=None"),
        ({"n_step": 0}, ValueError, "`n_step` must be at least 1. Received: n_step=0"),
        (
            {"feeding": "both"},
            ValueError,
            "`feeding` must be one of auto, overlap, alternate. Received: feeding='both'",
        ),
        (
            {"policy": 3},
            TypeError,
            "`policy` must be a callable, features [N, ...] -> action values [N, A], or None. Received: policy=3",
        ),
        (
            {"num_envs": 3},
            ValueError,
            "`num_envs` must divide `train_period_steps` or be a multiple of it. "
            "Received: num_envs=3, train_period_steps=4",
        ),
        (
            {"replay_min_steps": 65},
            ValueError,
            "`replay_min_steps` must not exceed `replay_capacity_steps`. "
            "Received: replay_min_steps=65, replay_capacity_steps=64",
        ),
    ],
)
def test_arguments_are_checked(settings, error, text):
    with pytest.raises(error) as raised:
        small(Named, **settings)
    assert str(raised.value) == text


@pytest.mark.parametrize("name", ["replay_capacity_steps", "replay_min_steps", "updates_per_epoch", "epsilon"])
def test_what_every_run_must_decide_has_no_default(name):
    settings = {key: value for key, value in SETTINGS.items() if key != name}

    with pytest.raises(TypeError, match=f"missing 1 required keyword-only argument: '{name}'"):
        EnvironmentSequence(Named, **settings)


@pytest.mark.case("B056")
def test_an_option_that_a_sequence_does_not_have_is_refused_by_its_name():
    with pytest.raises(TypeError) as raised:
        small(lambda: gymnasium.make("CartPole-v1"), terminal_on_life_loss=True)

    assert "'terminal_on_life_loss'" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.case("B078")
def test_the_old_gym_api_is_refused_through_a_sequence():
    with pytest.raises(TypeError, match=r"this is the old gym API\. A gymnasium environment is needed.*5 values\.$"):
        small(OldStep)[0]


@pytest.mark.case("B079")
def test_continuous_actions_are_refused_before_anything_is_built(monkeypatch):
    from dqn_lab.sequences import synchronous

    built = []
    monkeypatch.setattr(synchronous, "make_replay", lambda *args, **kwargs: built.append(args))

    with pytest.raises(ValueError, match=r"^Pendulum-v1: .*Discrete.*Box\("):
        small(lambda: gymnasium.make("Pendulum-v1"))
    assert built == []


@pytest.mark.parametrize("index", [3, -4, 100])
def test_an_epoch_has_as_many_looks_as_updates(index):
    with pytest.raises(IndexError) as raised:
        small(Named)[index]
    assert str(raised.value) == f"The epoch has 3 updates. Received: index={index}"


@pytest.mark.parametrize(("n", "error"), [(0, ValueError), (2.5, TypeError)])
def test_the_number_of_draws_is_checked(n, error):
    with pytest.raises(error, match=rf"^`n` must be .*\. Received: n={n}$"):
        small(Named).sample_indices(n)


@pytest.mark.parametrize(("steps", "error"), [(-1, ValueError), ("5", TypeError)])
def test_the_number_of_steps_is_checked(steps, error):
    with pytest.raises(error, match=rf"^`steps` must be .*\. Received: steps={steps!r}$"):
        small(Named).simulate(steps)


def test_a_twin_in_the_training_environment_is_refused():
    environment = Named()
    sequence = small(lambda: environment)

    with pytest.raises(ValueError, match=r"must return a new environment at each call: evaluation would cut the train"):
        sequence.create_validation_instance(0.1, num_envs=1)


# --- small things --------------------------------------------------------------------------------


def test_a_sequence_shows_its_numbers():
    sequence = small(lambda: Named((3,)))
    sequence.simulate(4)

    assert repr(sequence) == (
        "EnvironmentSequence('Named', num_envs=1, num_actions=2, batch_size=32, steps=4, frames=4, episodes=1, "
        "replay=6 of 64 rows)"
    )
    assert sequence.replay_bytes == sequence.replay.ring.nbytes > 64 * 4
    assert sequence.protocol is None


def test_closing_closes_the_environments():
    environment = Named()
    small(lambda: environment).close()

    assert environment.closed


def test_its_identity_tells_environments_and_front_ends_apart():
    class Alike(EnvironmentSequence):
        pass

    identities = {
        small(make, kind).get_identity()
        for make in (Named, Fresh, lambda: Named(num_actions=3))
        for kind in (EnvironmentSequence, Alike, Pairs)
    }
    assert len(identities) == 9
    assert small(Named).get_identity() == small(Named, seed=5).get_identity()


def test_time_is_counted_by_what_it_went_to():
    sequence = small(Named, policy=hashed)
    sequence.fill()
    assert sequence.seconds["environment"] > 0
    assert sequence.seconds["acting"] == sequence.seconds["sampling"] == sequence.seconds["update"] == 0

    sequence.produce_batch(hashed)

    assert sequence.seconds["acting"] > 0 and sequence.seconds["sampling"] > 0


@pytest.mark.parametrize(
    ("num_envs", "asked", "chosen", "reason"),
    [
        (4, "overlap", "overlap", "as asked"),
        (4, "alternate", "alternate", "as asked"),
        (1, "overlap", "alternate", "overlap needs num_envs >= train_period_steps = 4"),
    ],
)
def test_the_way_of_feeding_is_said_with_its_reason(num_envs, asked, chosen, reason):
    sequence = small(Named, num_envs=num_envs, feeding=asked)

    assert (sequence.feeding, sequence.feeding_reason) == (chosen, reason)


def test_an_environment_sequence_shows_single_observations_and_its_games_end_by_their_rules():
    sequence = small(lambda: Game(length=5, lives=(3, 2, 1, 0), size=2, frames=4), replay_min_steps=12)
    sequence.fill()

    assert sequence.get_states_start() == 1
    assert sequence.create_validation_instance(0.1).initial_decisions == 0
    assert (sequence.steps, sequence.frames) == (12, 48)
    assert np.flatnonzero(stored(sequence)["discount"] == 0).tolist() == [4, 9]


def test_a_vector_environment_with_resets_of_its_own_is_fed_in_turns():
    sequence = small(lambda: SyncVectorEnv([Named] * 4), num_envs=None, feeding="overlap")

    assert sequence.feeding == "alternate"
    assert sequence.feeding_reason == "the vector environment resets its lanes in steps of their own"


@pytest.mark.parametrize(
    ("hook", "answer", "text"),
    [
        ("get_reward_by_index", lambda index: np.ones(1), r"one number per row, \[B\].* Received: shape \(1,\)"),
        ("get_reward_by_index", lambda index: np.ones((len(index), 1)), r"Received: shape \(5, 1\)"),
        ("get_reward_by_index", lambda index: 1.0, "Received: float"),
        ("get_reward_by_index", lambda index: np.ones(len(index), complex), "dtype complex128"),
        ("get_feature_by_index", lambda index: np.ones((1, 2)), r"states \[B, ...\].* Received: shape \(1, 2\)"),
        ("get_feature_by_index", lambda index: None, "Received: NoneType"),
        ("get_feature_by_index", lambda index: [1.0] * len(index), "Received: list"),
    ],
)
def test_a_hook_that_returns_something_else_is_named_with_the_rule(hook, answer, text, monkeypatch):
    sequence = small(lambda: Named((9,)), Pairs)
    sequence.fill()
    monkeypatch.setattr(sequence, hook, answer)
    with pytest.raises(ValueError, match=f"Pairs.{hook} must return a numeric array of .*{text}"):
        sequence.get_transitions(sequence.sample_indices(5))


def test_a_policy_that_returns_nan_is_refused():
    sequence = small(lambda: Named((9,)), policy=lambda features: np.full((len(features), 2), np.nan))
    sequence.fill()
    with pytest.raises(FloatingPointError, match="that are numbers. Received: NaN at step .*, before update 1.$"):
        sequence.simulate_single()


def test_a_state_with_something_missing_is_refused():
    with pytest.raises(ValueError, match="what `get_state` returned. Received: no identity, replay, simulation"):
        small(lambda: Named((9,))).set_state({})


def test_an_epsilon_that_is_no_probability_is_said_as_such():
    with pytest.raises(TypeError, match="`epsilon` must be a number. Received: epsilon=None"):
        _ = small(lambda: Named((9,)), epsilon=lambda steps: None).epsilon


# --- going on from a saved state -----------------------------------------------------------------


def cartpole(seed=3, **settings):
    return EnvironmentSequence(
        lambda: gymnasium.make("CartPole-v1"),
        **{"num_envs": 2, "replay_capacity_steps": 300, "replay_min_steps": 40, "updates_per_epoch": 5}
        | {"epsilon": 0.3, "batch_size": 8, "seed": seed, "policy": hashed}
        | settings,
    )


@pytest.mark.parametrize("compression", ["lz4", "none"])
@pytest.mark.parametrize("steps", [40, 41, 97, 400])
def test_a_new_sequence_goes_on_bit_for_bit(steps, compression):
    whole = cartpole(replay_compression=compression)
    whole.simulate(steps)
    other = cartpole(seed=9, replay_compression=compression)
    other.set_state(everything(whole))
    for _ in range(5):
        for sequence in (whole, other):
            sequence.simulate(60)
            sequence.produce_batch(hashed)
        np.testing.assert_equal(everything(other), everything(whole))
        np.testing.assert_equal(other[0], whole[0])


def _without(key):
    return lambda state: state["simulation"].pop(key)


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda state: state["simulation"].update(steps="x"), "A simulation's state is .* Received: no steps"),
        (lambda state: state["simulation"].update(reward=None), "A simulation's state is .* Received: no reward"),
        (lambda state: state.update(simulation=None), "A simulation's state is .* Received: no steps, frames"),
        (lambda state: state.update(identity="another"), "of the same environments .* Received: identity='another'"),
        (_without("steps"), "A simulation's state is .* Received: no steps"),
        (_without("lanes"), "A simulation's state is .* Received: no lanes"),
        (lambda state: state["simulation"]["lanes"].pop("ended"), "Received: .*ended"),
        (lambda state: state["generators"].pop("sampling"), "The generators' states .* Received: sampling: 'sampling'"),
        (lambda state: state["generators"].update(environment={"a": 1}), "The generators' .* Received: environment: "),
        (lambda state: state["replay"].pop("action"), "action"),
    ],
)
def test_a_state_with_something_missing_is_refused_and_changes_nothing(damage, text):
    first, other = cartpole(), cartpole(seed=9)
    first.simulate(60), other.simulate(80)
    state, before = everything(first), everything(other)
    damage(state)
    with pytest.raises(ValueError, match=text):
        other.set_state(state)
    np.testing.assert_equal(everything(other), before)


def test_a_state_goes_through_files(tmp_path):
    first, other = cartpole(replay_compression="lz4"), cartpole(seed=9, replay_compression="lz4")
    first.simulate(200)
    write_state(tmp_path, "sequence", first.get_state())
    other.set_state(read_state(tmp_path, "sequence"))
    first.simulate(100), other.simulate(100)
    np.testing.assert_equal(everything(other), everything(first))


@pytest.mark.parametrize("compression", ["lz4", "none"])
def test_a_state_without_its_replay_goes_on_with_a_replay_loaded_by_other_means(compression, tmp_path):
    first, other = (cartpole(seed=seed, replay_compression=compression) for seed in (3, 9))
    first.simulate(200)
    other.replay.ring.set_state(everything(first)["replay"])
    write_state(tmp_path, "sequence", first.get_state(replay=False))
    other.set_state(read_state(tmp_path, "sequence"))
    np.testing.assert_equal(everything(other), everything(first))
    first.simulate(100), other.simulate(100)
    np.testing.assert_equal(everything(other), everything(first))


def test_seconds_go_on_from_a_state():
    first, other = cartpole(), cartpole()
    first.simulate(60), first.produce_batch(hashed)
    other.set_state(first.get_state())
    assert other.seconds == first.seconds
    assert other.seconds is not first.seconds
    assert other.seconds["sampling"] > 0


@pytest.mark.parametrize("seconds", [None, {"acting": 1.0}, {"acting": "1"}])
def test_seconds_that_are_none_are_refused(seconds):
    with pytest.raises(ValueError, match="The seconds must be numbers of acting, environment, sampling, update. Rec"):
        cartpole().set_state(cartpole().get_state() | {"seconds": seconds})


def test_a_sequence_tells_why_its_environments_are_not_continued_exactly():
    assert cartpole().why_inexact() is None
    reason = small(lambda: Named((9,))).why_inexact()
    assert "get_state" in reason and "\n" not in reason


def test_the_way_of_feeding_can_be_fixed():
    sequence = cartpole(feeding="auto", num_envs=4)
    for feeding in ("overlap", "alternate"):
        sequence.use_feeding(feeding, "as the run began")
        assert (sequence.feeding, sequence.feeding_reason) == (feeding, "as the run began")


@pytest.mark.parametrize(
    ("num_envs", "feeding", "text"),
    [
        (4, "auto", "`feeding` must be"),
        (2, "overlap", r"can't be fed so: overlap needs num_envs >= .*\. Received: feeding='overlap'"),
    ],
)
def test_a_way_of_feeding_that_is_none_or_impossible_is_refused(num_envs, feeding, text):
    sequence = cartpole(feeding="alternate", num_envs=num_envs)
    with pytest.raises(ValueError, match=text):
        sequence.use_feeding(feeding, "as the run began")
    assert (sequence.feeding, sequence.feeding_reason) == ("alternate", "as asked")


def test_an_environment_that_refuses_its_state_leaves_the_replay_and_begins_anew():
    first, other = cartpole(), cartpole(seed=9)
    first.simulate(60), other.simulate(80)
    state, before = everything(first), everything(other)
    state["simulation"]["lanes"]["environments"][1]["layers"][-1]["state"]["generator"] = {}
    with pytest.raises(ValueError):
        other.set_state(state)
    after = everything(other)
    assert after["simulation"].pop("lanes") is None and before["simulation"].pop("lanes") is not None
    np.testing.assert_equal(after, before)
    other.simulate(60)
    other.replay.ring.check_valid()


@pytest.mark.case("B104")
def test_epsilon_goes_on_from_the_saved_counter(tmp_path):
    def make():
        return small(lambda: Named((9,)), epsilon=LinearSchedule(1.0, 0.1, decay_steps=1_000_000))

    sequence = make()
    sequence.fill()
    for steps, epsilon in ((250_000, 0.775), (2_000_000, 0.1)):
        state = sequence.get_state()
        state["simulation"]["steps"] = steps
        write_state(tmp_path, "state", state)
        continued = make()
        continued.set_state(read_state(tmp_path, "state"))
        assert continued.epsilon == pytest.approx(epsilon, abs=1e-6)
