"""What holds for every sequence, as tests that a class of sequences inherits."""

import copy

import numpy as np
import pytest

SETTINGS = {
    "replay_capacity_steps": 1_200,
    "replay_min_steps": 24,
    "updates_per_epoch": 5,
    "batch_size": 8,
    "epsilon": 0.3,
    "seed": 3,
}
COLUMNS = {"action": np.int32, "reward": np.float32, "discount": np.float32, "weight": np.float32, "index": np.int64}


def hashed(features):
    """A policy of two actions whose values are a fixed, uneven function of the features."""
    flat = features.reshape(len(features), -1).astype(np.float64)  # [N, F]
    waves = np.sin(flat @ np.arange(1, flat.shape[1] + 1))  # [N]
    return np.stack([waves, -waves], axis=1)  # [N, A]


def everything(sequence):
    """Returns a copy of all that a step or a draw would change; the seconds, which no seed decides, are zero."""
    return copy.deepcopy(sequence.get_state() | {"seconds": dict.fromkeys(sequence.seconds, 0.0)})


def stored(sequence):
    """Returns every transition that may be drawn, the ring's lanes one after the other."""
    return sequence.get_transitions(sequence.replay.sampler.drawable())


class SequenceContract:
    """A class of sequences gets these tests in three lines:

    class TestMySequence(SequenceContract):
        def make(self, **settings):
            return MySequence(MyEnvironment, **settings)

    Its environments have two actions, and episodes of 2 to 20 steps.
    """

    def make(self, **settings):
        raise NotImplementedError

    @pytest.fixture(params=[1, 4], ids=["1 lane", "4 lanes"])
    def sequence(self, request):
        return self.make(num_envs=request.param, policy=hashed, **SETTINGS)

    def test_looking_changes_nothing(self, sequence):
        sequence.simulate(50)
        before = everything(sequence)

        looked = [sequence[0], sequence[4], sequence[-1], sequence.get_minibatch(), sequence.sample_indices(5)]
        looked += [sequence.get_latest_feature(), sequence.get_latest_observation(), sequence.get_latest_reward()]
        looked += [sequence.get_latest_terminal(), sequence.get_latest_action(), sequence.get_action()]
        looked += [sequence.steps, sequence.frames, sequence.episodes, sequence.epsilon, len(sequence), repr(sequence)]
        looked += [sequence.state_shape, sequence.state_dtype, sequence.replay_bytes, sequence.get_identity()]
        looked += [sequence.create_validation_instance(0.1, 2), sequence.fill()]

        np.testing.assert_equal(everything(sequence), before)

    def test_what_was_looked_at_is_a_copy(self, sequence):
        sequence.fill()
        before = everything(sequence)

        for array in (*sequence[0].values(), sequence.get_latest_observation(), sequence.get_latest_feature()):
            array[...] = 77
        for array in (sequence.get_latest_reward(), sequence.get_latest_terminal(), sequence.get_latest_action()):
            array[...] = 1

        np.testing.assert_equal(everything(sequence), before)

    def test_a_look_has_the_documented_keys_shapes_and_dtypes(self, sequence):
        batch = sequence[0]

        assert list(batch) == ["state", "action", "reward", "discount", "next_state", "weight", "index"]
        assert {key: batch[key].dtype for key in COLUMNS} == COLUMNS
        assert {batch[key].shape for key in COLUMNS} == {(8,)}
        for key in ("state", "next_state"):
            assert (batch[key].shape, batch[key].dtype) == ((8, *sequence.state_shape), sequence.state_dtype)
        assert np.all(batch["weight"] == 1)
        assert np.all((batch["action"] >= 0) & (batch["action"] < sequence.num_actions))

    def test_the_first_look_fills_once(self, sequence):
        assert (sequence.steps, len(sequence)) == (0, 5)

        first = sequence[0]
        filled = everything(sequence)
        second = sequence[3]

        assert sequence.steps == 24
        np.testing.assert_equal(first, second)
        np.testing.assert_equal(everything(sequence), filled)

    def test_the_fill_asks_no_policy_and_tells_its_progress(self):
        asked, told = [], []
        sequence = self.make(num_envs=1, policy=asked.append, **SETTINGS)

        sequence.fill(lambda done, total: told.append((done, total)))
        sequence.fill(lambda done, total: told.append("again"))

        assert told == [(done, 24) for done in range(1, 25)]
        assert asked == []

    def test_a_fill_equals_that_many_single_steps(self):
        filled, stepped = (self.make(num_envs=1, policy=hashed, **SETTINGS) for _ in range(2))

        filled.fill()
        for _ in range(24):
            stepped.simulate_single()

        np.testing.assert_equal(everything(filled), everything(stepped))

    def test_every_action_is_one_step_and_one_stored_row(self, sequence):
        sequence.simulate(60)
        ring = sequence.replay.ring
        slots = [ring.slot(np.arange(ring.written[lane]) * ring.num_envs + lane) for lane in range(ring.num_envs)]

        assert sequence.steps == 60 == np.count_nonzero(ring.action[np.concatenate(slots)] != -1)
        assert sequence.episodes == np.count_nonzero(ring.episode_end)
        assert sequence.episodes > 0
        ring.check_valid()

    def test_games_are_summed_raw_and_whole(self, sequence):
        running = np.zeros((2, sequence.num_envs))  # return and length of each lane's game
        total = np.zeros(2)
        for _ in range(40):
            sequence.simulate_single()
            running += np.stack([sequence.get_latest_reward(), np.ones(sequence.num_envs)])
            ended = sequence.get_latest_episode_end()
            total += running[:, ended].sum(axis=1)
            running[:, ended] = 0

        np.testing.assert_allclose([sequence.episode_return_sum, sequence.episode_length_sum], total)

    def test_the_latest_getters_agree_with_the_ring(self, sequence):
        for _ in range(30):
            decided = sequence.replay.ring.newest_index if sequence.steps else np.arange(sequence.num_envs)
            sequence.simulate_single()
            slot = sequence.replay.ring.slot(decided)
            newest = sequence.replay.ring.newest_index

            np.testing.assert_array_equal(sequence.get_latest_action(), sequence.replay.ring.action[slot])
            np.testing.assert_array_equal(sequence.get_latest_reward(), sequence.replay.ring.reward[slot])
            np.testing.assert_array_equal(sequence.get_latest_terminal(), sequence.replay.ring.terminal[slot])
            frames = sequence.replay.ring.frames.read(newest)
            np.testing.assert_array_equal(sequence.get_latest_observation(), frames)
            np.testing.assert_array_equal(sequence.get_latest_feature(), sequence.get_feature_by_index(newest))

    def test_a_draw_depends_on_the_generators_state_alone(self, sequence):
        sequence.simulate(40)

        first, second = (sequence.sample_indices(50, np.random.default_rng(5)) for _ in range(2))
        other = sequence.sample_indices(50, np.random.default_rng(6))

        np.testing.assert_array_equal(first, second)
        assert not np.array_equal(first, other)
        drawn = sequence.sample_indices(8, np.random.default_rng(5))
        np.testing.assert_equal(sequence.get_minibatch(np.random.default_rng(5)), sequence.get_transitions(drawn))

    def test_a_given_generator_moves_and_the_own_one_does_not(self, sequence):
        sequence.fill()
        given = np.random.default_rng(5)

        assert not np.array_equal(sequence.sample_indices(50, given), sequence.sample_indices(50, given))
        np.testing.assert_array_equal(sequence.sample_indices(50), sequence.sample_indices(50))
        np.testing.assert_array_equal(sequence.get_action(), sequence.get_action())

    def test_a_look_shows_the_batch_that_is_drawn_next(self, sequence):
        sequence.simulate(24 + 8)  # nothing more is due

        looked = sequence[0]

        np.testing.assert_equal(sequence.produce_batch(None), looked)
        assert not np.array_equal(sequence[0]["index"], looked["index"])

    def test_a_state_seen_when_acting_is_drawn_as_it_was_seen(self, sequence):
        seen = []
        sequence.fill()
        sequence.policy = lambda features: seen.append(features.copy()) or hashed(features)
        decided = []
        for _ in range(40):
            decided.append(sequence.replay.ring.newest_index)
            sequence.simulate_single()

        drawn = sequence.get_transitions(np.concatenate(decided))

        np.testing.assert_array_equal(drawn["state"], np.concatenate(seen))

    def test_one_seed_makes_one_run(self):
        runs = [self.make(num_envs=2, policy=hashed, **SETTINGS | {"seed": seed}) for seed in (3, 3, 4)]
        for sequence in runs:
            sequence.simulate(80)
        first, second, other = map(everything, runs)

        np.testing.assert_equal(first, second)
        assert not np.array_equal(first["replay"]["action"], other["replay"]["action"])

    @pytest.mark.case("B066")
    def test_playing_a_twin_leaves_the_training_sequence_as_it_is(self):
        plain, watched = (self.make(num_envs=2, policy=hashed, **SETTINGS) for _ in range(2))
        twin = watched.create_validation_instance(0.05, num_envs=3)
        twin.policy = hashed
        for block in range(6):
            plain.simulate(100)
            watched.simulate(100)
            before = everything(watched)
            twin.reseed(block)
            for _ in range(50):
                twin.simulate_single()
            np.testing.assert_equal(everything(watched), before)

        np.testing.assert_equal(everything(watched), everything(plain))
        np.testing.assert_equal(stored(watched), stored(plain))

    def test_a_twin_sees_states_and_rewards_as_the_learner_does(self, sequence):
        twin = sequence.create_validation_instance(0.5, num_envs=2)
        twin.policy = seen = Recorder(hashed)
        twin.reseed(1)
        for _ in range(40):
            twin.simulate_single()
            transition = twin.get_latest_transition()

            np.testing.assert_array_equal(transition["state"], seen.features)
            assert transition["state"].shape[1:] == sequence.state_shape == transition["next_state"].shape[1:]
            assert transition["state"].dtype == sequence.state_dtype == transition["next_state"].dtype
            np.testing.assert_array_equal(transition["action"], twin.get_latest_action())
            np.testing.assert_array_equal(transition["terminal"], twin.get_latest_terminal())
            assert transition["reward"].shape == (twin.num_envs,)

    def test_a_saved_state_draws_and_decides_the_same(self, sequence):
        sequence.simulate(60)
        batch = sequence.produce_batch(hashed)
        sequence.detach(sequence.attach(hashed), batch)  # made, and taken by no update
        state = everything(sequence)
        look = sequence[0]

        other = self.make(num_envs=sequence.num_envs, policy=hashed, **SETTINGS | {"seed": 9})
        other.set_state(state)

        np.testing.assert_equal(everything(other), state)
        assert state["batches"] == 1
        np.testing.assert_array_equal(state["carried"], batch["index"])
        np.testing.assert_equal(other[0], look)
        assert (other.state_shape, other.steps) == (sequence.state_shape, sequence.steps)
        np.testing.assert_equal(everything(other), state)

    def test_a_saved_state_without_its_environments_goes_on_with_new_episodes(self, sequence):
        sequence.simulate(60)
        newest = sequence.replay.ring.newest_index
        other = self.make(num_envs=sequence.num_envs, policy=hashed, **SETTINGS)
        state = everything(sequence)
        state["simulation"]["lanes"] = None
        other.set_state(state)

        other.simulate(20)

        ring = other.replay.ring
        ring.check_valid()
        assert np.all(ring.age[ring.slot(newest + ring.num_envs)] == 0)
        assert other.steps == 80


class Recorder:
    """A policy that keeps the features it was last asked for."""

    def __init__(self, policy):
        self.policy = policy

    def __call__(self, features):
        self.features = features.copy()
        return self.policy(features)
