import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from worlds import Chance, Game, Named, names

from dqn_lab.sequences.atari import AtariSequence
from dqn_lab.sequences.environment import EnvironmentSequence
from dqn_lab.sequences.synchronous import SynchronousSequence

SMALL = {"replay_capacity_steps": 120, "replay_min_steps": 4, "updates_per_epoch": 3, "epsilon": 1.0}


def twin_of(make, num_envs=2, kind=EnvironmentSequence, epsilon=0.0, **settings):
    return kind(make, **SMALL | settings).create_validation_instance(epsilon, num_envs)


def vector_of(make, num_envs, mode=AutoresetMode.NEXT_STEP):
    return lambda: SyncVectorEnv([make] * num_envs, autoreset_mode=mode)


def waves(features):
    """A policy of three actions whose values are a fixed, uneven function of the features."""
    flat = features.reshape(len(features), -1).astype(np.float64)
    return np.sin(flat.sum(axis=1)[:, None] * [3.0, 5.0, 7.0])


def play(twin, games):
    """Returns all that happened in games 0..games - 1, each as a list of its decisions."""
    told, open_games = {number: [] for number in range(games)}, set(range(games))
    while open_games:
        twin.simulate_single()
        decided = twin.get_latest_transition()
        columns = twin.get_latest_reward(), twin.get_latest_episode_end(), twin.get_latest_truncation()
        for lane in np.flatnonzero(twin.get_latest_acted()):
            number = int(twin.episode_number[lane])
            if number in told:
                row = *(readable(decided[key][lane]) for key in decided), *(column[lane].item() for column in columns)
                told[number].append(row)
            if columns[1][lane]:
                open_games.discard(number)
    return told


def readable(value):
    return value.tolist() if value.size < 10 else value.tobytes()


class Pairs(SynchronousSequence):
    """Two observations in a state, and half the reward."""

    def get_states_start(self):
        return 2

    def get_feature_by_index(self, index):
        return self.replay.observations(index, 2)[..., 0]

    def get_reward_by_index(self, index):
        return 0.5 * self.replay.rewards(index)


# --- numbers of games ----------------------------------------------------------------------------


def test_a_lane_whose_game_ended_begins_the_next_number_the_lowest_lane_first():
    lengths = iter([(None,), (2,), (1, 3), (1,)])  # the first is the training environment's
    twin = twin_of(lambda: Named(next(lengths)), 3)
    assert twin.episode_number.tolist() == [-1, -1, -1]
    twin.reseed(0)
    assert twin.episode_number.tolist() == [0, 1, 2]

    kept, numbers = twin.episode_number, []
    for _ in range(5):
        twin.simulate_single()
        numbers.append(twin.episode_number.tolist())

    # Lane 0: games of 2 steps. Lane 1: one of 1 step, then of 3. Lane 2: of 1 step.
    assert numbers == [[0, 1, 2], [0, 3, 4], [5, 3, 6], [5, 3, 7], [8, 9, 10]]
    assert kept.tolist() == [0, 1, 2]  # the array that was read then


def test_the_number_is_of_the_game_that_the_last_decision_belonged_to():
    twin = twin_of(lambda: Named((2,)), 1)
    told = []
    for _ in range(5):
        twin.simulate_single()
        number, end = twin.episode_number.item(), twin.get_latest_episode_end().item()
        told.append((names(twin.get_latest_transition()["state"]), number, end))

    assert told == [([0], 0, False), ([1], 0, True), ([100], 1, False), ([101], 1, True), ([200], 2, False)]


@pytest.mark.parametrize("policy", [waves, None])
def test_a_game_is_the_same_in_one_lane_and_in_eight(policy):
    played = []
    for num_envs in (1, 8, 3):
        twin = twin_of(Chance, num_envs, epsilon=0.3)
        twin.policy = policy
        twin.reseed(11)
        played.append(play(twin, 20))

    assert played[0] == played[1] == played[2]
    assert len({len(game) for game in played[0].values()}) > 3


def test_a_game_of_breakout_is_the_same_in_one_lane_and_in_several():
    def policy(features):
        return waves(features)[:, [0, 1, 2, 0]]

    settings = SMALL | {"epsilon": 0.1}
    sequence = AtariSequence("breakout", protocol="breakout-v0", noop_max=30, evaluation_frame_cap=80, **settings)
    played = []
    for num_envs in (1, 3):
        twin = sequence.create_validation_instance(0.1, num_envs)
        twin.policy = policy
        twin.reseed(4)
        played.append(play(twin, 3))

    assert played[0] == played[1]
    assert [len(game) for game in played[0].values()] == [20] * 3
    assert played[0][0] != played[0][1]


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_games_are_seeded_by_the_seed_and_their_number(epsilon):
    twin = twin_of(Chance, 4, epsilon=epsilon)
    twin.policy = waves
    courses = []
    for seed in (1, 1, 2):
        twin.reseed(seed)
        courses.append(play(twin, 6))

    assert courses[0] == courses[1]
    assert all(courses[0][number] != courses[2][number] for number in range(6))
    assert len({repr(game) for game in courses[0].values()}) == 6


def test_exploration_is_seeded_by_the_seed_and_the_number_too():
    twin = twin_of(lambda: Named((30,), num_actions=3), 2)
    actions = []
    for seed in (1, 1, 2):
        twin.reseed(seed)
        actions.append([[row[1] for row in game] for game in play(twin, 2).values()])

    assert actions[0] == actions[1] != actions[2]
    assert actions[0][0] != actions[0][1]


def test_environments_are_seeded_once_for_each_game_and_differently():
    made = []

    def make():
        made.append(Named((2,)))
        return made[-1]

    twin = twin_of(make, 2)
    twin.reseed(5)
    for _ in range(5):
        twin.simulate_single()

    seeds = [environment.seeds for environment in made[1:]]
    assert [len(each) for each in seeds] == [3, 3]
    assert len(set(sum(seeds, []))) == 6 and all(0 <= seed < 2**31 for seed in sum(seeds, []))


def test_reseeding_in_the_middle_of_a_game_begins_anew_in_all_lanes():
    twin = twin_of(lambda: Named((3, 5)), 2)
    for _ in range(4):
        twin.simulate_single()
    twin.reseed(0)

    assert twin.episode_number.tolist() == [0, 1]
    assert names(twin.get_latest_feature()) == [200, 200]
    twin.simulate_single()
    assert names(twin.get_latest_feature()) == [201, 201]
    assert not twin.get_latest_episode_end().any()


def test_it_tells_its_seed_and_how_many_games_each_lane_has_begun():
    twin = twin_of(lambda: Named((1, 3)), 2)
    assert twin.games_begun.tolist() == [0, 0]
    twin.reseed(7)
    assert (twin.seed, twin.games_begun.tolist()) == (7, [1, 1])
    before = twin.games_begun
    for _ in range(2):
        twin.simulate_single()
    assert (before.tolist(), twin.games_begun.tolist()) == ([1, 1], [2, 2])
    twin.reseed(7)
    twin.restart(3)
    assert (twin.seed, twin.games_begun.tolist()) == (3, [4, 4])


def test_without_a_seed_the_first_decision_takes_seed_zero():
    courses = []
    for seed in (None, 0):
        twin = twin_of(Chance, 2)
        twin.get_latest_feature() if seed is None else twin.reseed(seed)
        courses.append(play(twin, 3))

    assert courses[0] == courses[1]


# --- acting --------------------------------------------------------------------------------------


def test_policy_and_epsilon_can_be_set_at_any_time():
    twin = twin_of(lambda: Named((500,), num_actions=3), 2)

    def actions(decisions):
        taken = []
        for _ in range(decisions):
            twin.simulate_single()
            taken += twin.get_latest_action().tolist()
        return np.bincount(taken, minlength=3)

    assert actions(60).min() > 20  # without a policy, uniformly
    twin.policy = lambda features: np.tile([0.0, 2.0, 1.0], (2, 1))
    assert actions(30).tolist() == [0, 60, 0]
    twin.epsilon = 1.0
    assert actions(60).min() > 20
    twin.epsilon = 0.3
    assert 60 < actions(60)[1] < 118
    twin.policy, twin.epsilon = None, 0.0
    assert actions(60).min() > 20


def test_the_policy_is_asked_once_for_all_lanes():
    shapes = []
    twin = twin_of(Named, 5)
    twin.policy = lambda features: shapes.append(features.shape) or np.zeros((5, 2))
    twin.simulate_single()
    twin.simulate_single()

    assert shapes == [(5, 1), (5, 1)]


@pytest.mark.parametrize(
    ("epsilon", "error", "text"),
    [
        (1.5, ValueError, "`epsilon` must lie within 0 and 1. Received: epsilon=1.5"),
        (None, TypeError, "`epsilon` must be a number. Received: epsilon=None"),
    ],
)
def test_epsilon_is_checked(epsilon, error, text):
    with pytest.raises(error) as raised:
        twin_of(Named, epsilon=epsilon)
    assert str(raised.value) == text


@pytest.mark.parametrize("call", ["reseed", "restart"])
@pytest.mark.parametrize(("seed", "error"), [(-1, ValueError), (1.5, TypeError), ("1", TypeError)])
def test_seeds_are_checked(call, seed, error):
    with pytest.raises(error, match=rf"^`seed` must be .*\. Received: seed={seed!r}$"):
        getattr(twin_of(Named), call)(seed)


def test_the_number_of_lanes_is_eight_unless_another_is_given():
    sequence = EnvironmentSequence(Named, **SMALL)

    assert sequence.create_validation_instance(0.1).num_envs == 8
    with pytest.raises(ValueError, match="`num_envs` must be at least 1. Received: num_envs=0"):
        sequence.create_validation_instance(0.1, 0)


# --- what a decision brought ---------------------------------------------------------------------

MODES = {
    "one by one": lambda make: make,
    "SAME_STEP": lambda make: vector_of(make, 2, AutoresetMode.SAME_STEP),
    "NEXT_STEP": lambda make: vector_of(make, 2),
}


class Fresh(Named):
    """Makes a new array for every observation."""

    def _observe(self):
        return super()._observe().copy()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_decisions_are_told_as_the_learner_would_see_them(mode, end):
    twin = twin_of(MODES[mode](lambda: Fresh((2,), end, reward=lambda t: 10.0 * t)), 2, Pairs)

    played = play(twin, 4)

    ended = end == "terminated", 20.0, True, end == "truncated"
    for game in (played[0], played[1]):
        assert [(row[0], *row[2:]) for row in game] == [
            ([0, 0], 5.0, False, [0, 1], 10.0, False, False),
            ([0, 1], 10.0, ended[0], [1, 2], *ended[1:]),
        ]
    for game in (played[2], played[3]):
        assert [(row[0], *row[2:]) for row in game] == [
            ([100, 100], 5.0, False, [100, 101], 10.0, False, False),
            ([100, 101], 10.0, ended[0], [101, 102], *ended[1:]),
        ]


def test_a_lost_life_is_terminal_for_the_learner_and_ends_no_game():
    class Faked(AtariSequence):
        def make_game(self, frame_cap):
            return Game(length=4, lives=(2, 1, 1, 0), size=2)

    sequence = Faked("breakout", protocol="nature-2015", **SMALL)
    twin = sequence.create_validation_instance(0.0, 1)
    told = []
    for _ in range(5):
        twin.simulate_single()
        told.append((twin.get_latest_terminal().item(), twin.get_latest_episode_end().item(), *twin.episode_number))

    assert told == [(False, False, 0), (True, False, 0), (False, False, 0), (True, True, 0), (False, False, 1)]


def test_its_getters_give_copies():
    twin = twin_of(Named)
    twin.simulate_single()
    getters = ("action", "reward", "terminal", "episode_end", "truncation", "acted")
    before = [getattr(twin, f"get_latest_{name}")().tolist() for name in getters]

    for name in getters:
        getattr(twin, f"get_latest_{name}")()[...] = 1 - getattr(twin, f"get_latest_{name}")()

    assert [getattr(twin, f"get_latest_{name}")().tolist() for name in getters] == before


def test_its_games_are_counted_raw():
    twin = twin_of(lambda: Named((3,), reward=7.0), 2, Pairs)
    for _ in range(7):
        twin.simulate_single()

    assert (twin.steps, twin.frames, twin.episodes) == (14, 14, 4)
    assert (twin.episode_return_sum, twin.episode_length_sum) == (84.0, 12)


# --- plain restarts ------------------------------------------------------------------------------


def initial_states(twin, seed):
    twin.restart(seed)
    for _ in range(twin.initial_decisions + 1):
        twin.simulate_single()
    return twin.get_latest_transition()


def test_plain_restarts_with_one_seed_bring_the_same_states_and_actions_again():
    drawn = []
    for seed in (3, 3, 4):
        twin = twin_of(Chance, 4, epsilon=1.0)
        drawn.append([initial_states(twin, seed), initial_states(twin, None), initial_states(twin, None)])

    np.testing.assert_equal(drawn[0], drawn[1])
    for key in ("state", "action"):
        assert not np.array_equal(*(np.concatenate([batch[key] for batch in run]) for run in (drawn[0], drawn[2])))
    first, second, third = (batch["state"] for batch in drawn[0])
    assert len(np.unique(np.concatenate([first, second, third]), axis=0)) == 12


def test_a_plain_restart_seeds_the_environments_only_where_a_seed_is_given():
    made = []

    def make():
        made.append(Named((9,)))
        return made[-1]

    twin = twin_of(make, 2)
    twin.restart()
    twin.restart()
    twin.restart(6)
    seeds = np.array([environment.seeds for environment in made[1:]], object).T

    assert [[seed is None for seed in lanes] for lanes in seeds] == [[False] * 2, [True] * 2, [False] * 2]
    assert len({*seeds[0], *seeds[2]}) == 4


def test_a_restart_leaves_a_running_game_and_joins_nothing():
    twin = twin_of(lambda: Named((9,)), 1, Pairs)
    for _ in range(3):
        twin.simulate_single()
    twin.restart()
    twin.simulate_single()

    transition = twin.get_latest_transition()
    assert (transition["state"].tolist(), transition["next_state"].tolist()) == ([[100, 100]], [[100, 101]])


def test_after_the_initial_decisions_a_state_shows_as_many_observations_as_it_can():
    assert twin_of(Named).initial_decisions == 0
    twin = twin_of(lambda: Named((9,)), 2, Pairs)
    assert twin.initial_decisions == 1

    assert initial_states(twin, 1)["state"].tolist() == [[0, 1], [0, 1]]


# --- a user's vector environment -----------------------------------------------------------------


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_vector_environment_is_seeded_at_the_first_games_and_numbers_its_games(mode):
    made = []

    def make():
        made.append(Fresh((2,)))
        return made[-1]

    twin = twin_of(vector_of(make, 3, mode), 8, train_period_steps=3)
    assert twin.num_envs == 3
    twin.reseed(1)
    numbers = []
    for _ in range(4):
        twin.simulate_single()
        numbers.append(twin.episode_number.tolist())

    second = [0, 1, 2] if mode == AutoresetMode.NEXT_STEP else [3, 4, 5]
    assert numbers == [[0, 1, 2], [0, 1, 2], second, [3, 4, 5]]
    assert [environment.seeds[0] is None for environment in made[3:]] == [False] * 3
    assert [set(environment.seeds[1:]) for environment in made[3:]] == [{None}] * 3
    twin.reseed(1)
    assert twin.episode_number.tolist() == [0, 1, 2]
    assert [environment.seeds[-1] == environment.seeds[0] for environment in made[3:]] == [True] * 3


def test_a_decision_in_which_a_lane_only_resets_itself_is_told():
    twin = twin_of(vector_of(lambda: Named((1,)), 1))
    told = []
    for _ in range(4):
        twin.simulate_single()
        told.append((twin.get_latest_acted().item(), twin.get_latest_episode_end().item(), *twin.episode_number))

    assert told == [(True, True, 0), (False, False, 0), (True, True, 1), (False, False, 1)]


def test_games_of_a_vector_environment_come_again_with_their_seed():
    twin = twin_of(lambda: gymnasium.make_vec("CartPole-v1", 4), epsilon=0.5)
    twin.policy = lambda features: features[:, [2, 0]]
    courses = []
    for seed in (1, 1, 2):
        twin.reseed(seed)
        courses.append(play(twin, 8))

    assert courses[0] == courses[1] != courses[2]


# --- independence --------------------------------------------------------------------------------


def test_it_has_its_own_environments_and_closes_them():
    made = []

    def make():
        made.append(Named())
        return made[-1]

    sequence = EnvironmentSequence(make, **SMALL)
    twin = sequence.create_validation_instance(0.1, 3)
    twin.close()

    assert [environment.closed for environment in made] == [False, True, True, True]


def test_twins_are_independent_of_each_other():
    sequence = EnvironmentSequence(Chance, **SMALL)
    alone, other = (sequence.create_validation_instance(0.5, 2) for _ in range(2))
    alone.reseed(1)
    course = play(alone, 4)
    alone.reseed(1)
    other.reseed(2)
    alone.simulate_single()
    play(other, 3)

    alone.reseed(1)
    assert play(alone, 4) == course


def test_its_replay_holds_two_states_and_no_more():
    twin = twin_of(lambda: Named((3,)), 5, Pairs)
    for _ in range(20):
        twin.simulate_single()

    assert twin._replay.ring.capacity == 5 * 3


def test_its_key_is_the_identity_of_what_it_plays():
    sequence = EnvironmentSequence(Named, **SMALL)

    assert sequence.create_validation_instance(0.1, 2).key() == sequence.get_identity()
