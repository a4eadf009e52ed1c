import math
import subprocess
import sys

import numpy as np
import pytest
from sequence_contract import SequenceContract, everything, stored
from worlds import Game

from dqn_lab import memory
from dqn_lab.environments.atari import Atari
from dqn_lab.protocols import get_protocol
from dqn_lab.schedules import LinearSchedule
from dqn_lab.sequences import atari as atari_module
from dqn_lab.sequences.atari import AtariSequence

SMALL = {"replay_capacity_steps": 200, "replay_min_steps": 4, "updates_per_epoch": 3, "epsilon": 1.0, "batch_size": 8}


class Faked(AtariSequence):
    """Plays fake games; `made` holds them with their frame caps."""

    def __init__(self, make=Game, protocol="nature-2015", **settings):
        self.make, self.made = make, []
        super().__init__("breakout", protocol=protocol, **SMALL | settings)

    def make_game(self, frame_cap):
        self.made.append((self.make(), frame_cap))
        return self.made[-1][0]

    @property
    def tape(self):
        return self.made[0][0].tape


class TestAtariSequence(SequenceContract):
    def make(self, **settings):
        return Faked(lambda: Game(num_actions=2, size=6, rewards=(3.0, 0.0, -0.5)), **settings)


def played(sequence, steps):
    sequence.simulate(steps)
    sequence.replay.ring.check_valid()
    return sequence


def terminals(sequence, steps):
    """Returns which of the first steps are terminal for the learner, 1 for the first."""
    ring = sequence.replay.ring
    rows = np.flatnonzero(ring.action[: len(ring)] >= 0)[:steps]  # those with an action
    return (1 + np.flatnonzero(sequence.get_transitions(rows)["discount"] == 0)).tolist()


# --- lives ---------------------------------------------------------------------------------------


def three_lives():
    return Game(length=12, lives=(3, 3, 3, 2, 2, 2, 2, 2, 1, 1, 1, 0))


@pytest.mark.case("B053")
def test_a_lost_life_is_terminal_for_the_learner_and_the_game_goes_on():
    sequence = played(Faked(three_lives), 12)

    assert terminals(sequence, 12) == [4, 9, 12]
    assert [call == "reset" for call in sequence.tape] == [True] + 12 * [False] + [True]
    assert (sequence.episodes, sequence.episode_return_sum, sequence.episode_length_sum) == (1, 12.0, 12)
    assert sequence.get_latest_terminal().tolist() == [True]


@pytest.mark.parametrize("protocol", ["dopamine", "breakout-v0"])
def test_without_that_rule_only_the_end_of_the_game_is_terminal(protocol):
    assert terminals(played(Faked(three_lives, protocol), 12), 12) == [12]


def test_the_rule_may_be_set_apart_from_the_protocol():
    assert terminals(played(Faked(three_lives, "dopamine", terminal_on_life_loss=True), 12), 12) == [4, 9, 12]
    assert terminals(played(Faked(three_lives, terminal_on_life_loss=False), 12), 12) == [12]


def test_a_stack_goes_on_across_a_lost_life():
    sequence = played(Faked(three_lives), 8)

    drawn = sequence.get_transitions(np.array([4]))  # the first state of the second life

    assert drawn["state"][0, 0, 0].tolist() == [2, 3, 4, 5]


@pytest.mark.case("B055")
def test_a_game_that_always_reports_no_lives_loses_none():
    sequence = AtariSequence("pong", protocol="nature-2015", **SMALL | {"replay_capacity_steps": 400})
    played(sequence, 300)

    assert sequence.protocol.terminal_on_life_loss
    assert np.count_nonzero(sequence.replay.rewards(np.arange(300)) < 0) > 1  # points were lost
    assert terminals(sequence, 300) == []


@pytest.mark.case("B055")
def test_a_game_without_lives_is_terminal_at_its_end():
    assert terminals(played(Faked(lambda: Game(length=5, lives=(0,))), 12), 12) == [5, 10]


@pytest.mark.case("B055")
def test_an_extra_life_is_no_loss():
    sequence = played(Faked(lambda: Game(length=20, lives=(3, 4, 3, 3))), 6)

    assert terminals(sequence, 6) == [3]


# --- rewards -------------------------------------------------------------------------------------


@pytest.mark.case("B059")
@pytest.mark.parametrize(
    ("transform", "seen"),
    [("sign", [1, -1, 1, 0]), ("clip", [0.5, -0.3, 1, 0]), ("none", [0.5, -0.3, 7, 0])],
)
def test_the_learner_sees_transformed_rewards_and_the_ring_keeps_raw_ones(transform, seen):
    raw = [0.5, -0.3, 7.0, 0.0]
    sequence = played(Faked(lambda: Game(rewards=raw), reward_transform=transform), 4)

    np.testing.assert_allclose(sequence.get_transitions(np.arange(4))["reward"], seen, rtol=1e-6)
    np.testing.assert_array_equal(sequence.replay.rewards(np.arange(4)), raw)


@pytest.mark.parametrize(("protocol", "seen"), [("nature-2015", 0.5), ("dopamine", 0.5), ("breakout-v0", 1.0)])
def test_the_transform_is_the_protocols_unless_another_is_given(protocol, seen):
    sequence = played(Faked(lambda: Game(rewards=(0.5,)), protocol), 4)

    assert set(stored(sequence)["reward"].tolist()) == {seen}


@pytest.mark.case("B064")
def test_scores_are_raw_and_only_the_learner_sees_clipped_rewards():
    sequence = played(Faked(lambda: Game(length=4, rewards=(7, 4, 1, 1))), 4)
    twin = sequence.create_validation_instance(0.0, num_envs=1)
    score, learners = 0.0, 0.0
    for _ in range(4):
        twin.simulate_single()
        score += twin.get_latest_reward().item()
        learners += twin.get_latest_transition()["reward"].item()

    assert (sequence.episodes, sequence.episode_return_sum) == (1, 13.0)
    assert sequence.get_transitions(np.arange(4))["reward"].sum() == 4.0
    assert (score, learners) == (13.0, 4.0)


def test_each_reward_of_a_window_is_transformed_by_itself():
    sequence = played(Faked(lambda: Game(rewards=(7, 4, -3)), n_step=3, gamma=0.5), 4)

    assert sequence.get_transitions(np.array([0]))["reward"].tolist() == [1 + 0.5 - 0.25]


# --- frames --------------------------------------------------------------------------------------


@pytest.mark.case("B030")
@pytest.mark.parametrize("skip", [1, 4])
def test_frames_are_skip_times_steps_and_epsilon_counts_steps(skip):
    schedule = LinearSchedule(1.0, 0.1, decay_steps=100)
    sequence = AtariSequence("breakout", protocol="dopamine", frame_skip=skip, **SMALL | {"epsilon": schedule})
    played(sequence, 50)

    assert (sequence.steps, sequence.frames) == (50, 50 * skip)
    assert sequence.epsilon == pytest.approx(0.55)


class Recording(Atari):
    """Keeps what it returned."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen, self.numbers, self.skips = [], [], []

    def reset(self, **kwargs):
        return self._keep(super().reset(**kwargs))

    def step(self, action):
        return self._keep(super().step(action))

    def _keep(self, result):
        self.seen.append(result[0].copy())
        self.numbers.append(result[-1]["episode_frame_number"])
        self.skips.append(result[-1]["frames"])
        return result


def test_a_random_skip_counts_the_frames_that_were_drawn():
    class Recorded(AtariSequence):
        def make_game(self, frame_cap):
            self.recording = Recording("breakout", frame_skip=self.protocol.frame_skip, repeat_action_probability=0.25)
            return self.recording

    sequence = played(Recorded("breakout", protocol="breakout-v0", frame_skip=(3, 5), **SMALL), 60)
    recording = sequence.recording

    drawn = np.diff(recording.numbers)
    assert set(drawn.tolist()) == {3, 4}
    assert sequence.frames == drawn.sum() == sum(recording.skips)
    assert 60 * 3 < sequence.frames < 60 * 4


# --- stacks --------------------------------------------------------------------------------------


@pytest.mark.case("B083")
def test_the_newest_frame_comes_last():
    sequence = played(Faked(), 4)  # frame k of the game's life is filled with k

    state = sequence.get_feature_by_index(np.array([3]))

    assert state.shape == (1, 84, 84, 4)
    assert state[0, 0, 0].tolist() == [1, 2, 3, 4]
    assert np.all(state == [1, 2, 3, 4])


def test_early_in_an_episode_the_first_frame_is_repeated():
    sequence = played(Faked(lambda: Game(length=5, size=3)), 9)

    stacks = sequence.get_feature_by_index(np.arange(10))[:, 0, 0].tolist()

    assert stacks == [
        [1, 1, 1, 1],
        [1, 1, 1, 2],
        [1, 1, 2, 3],
        [1, 2, 3, 4],
        [2, 3, 4, 5],
        [3, 4, 5, 6],
        [7, 7, 7, 7],
        [7, 7, 7, 8],
        [7, 7, 8, 9],
        [7, 8, 9, 10],
    ]


@pytest.mark.parametrize("stack", [1, 2, 5])
def test_a_stack_may_have_any_length(stack):
    sequence = played(Faked(lambda: Game(size=3), stack=stack), 8)

    assert sequence.state_shape == (3, 3, stack)
    assert sequence.get_feature_by_index(np.array([7]))[0, 1, 2].tolist() == list(range(9 - stack, 9))
    assert sequence.create_validation_instance(0.1).initial_decisions == stack - 1


def test_the_stacks_of_a_batch_are_not_mixed():
    sequence = played(Faked(lambda: Game(size=5), num_envs=4), 40)
    index = sequence.replay.sampler.drawable()

    found = sequence.get_feature_by_index(index)

    expected = np.moveaxis(sequence.replay.observations(index, 4), 1, -1)
    np.testing.assert_array_equal(found, expected)
    assert found.flags.c_contiguous


def test_every_channel_is_a_frame_that_breakout_showed():
    class Recorded(AtariSequence):
        def make_game(self, frame_cap):
            self.recording = Recording("breakout", frame_cap=80)
            return self.recording

    sequence = played(Recorded("breakout", protocol="dopamine", repeat_action_probability=0.0, **SMALL), 70)
    seen = np.stack(sequence.recording.seen)
    assert len(np.unique(seen.reshape(len(seen), -1), axis=0)) > 20

    drawn = stored(sequence)

    begins = np.maximum.accumulate(np.where(np.array(sequence.recording.skips) == 0, np.arange(len(seen)), 0))
    for key, shift in (("state", 0), ("next_state", 1)):
        newest = drawn["index"] + shift
        rows = np.maximum(newest[:, None] - np.arange(3, -1, -1), begins[newest][:, None])  # [B, 4]
        np.testing.assert_array_equal(drawn[key], np.moveaxis(seen[rows], 1, -1))
    assert sequence.episodes == 3
    assert np.all(drawn["discount"] > 0)  # the cap truncates


def test_acting_in_breakout_sees_what_replay_draws():
    seen = []
    sequence = AtariSequence("breakout", protocol="nature-2015", **SMALL | {"epsilon": 0.2}, num_envs=2)
    sequence.fill()
    sequence.policy = lambda features: seen.append(features.copy()) or np.eye(4)[features[:, 0, 0, 0] % 4]
    decided = []
    for _ in range(40):
        decided.append(sequence.replay.ring.newest_index)
        sequence.simulate_single()

    drawn = sequence.get_transitions(np.concatenate(decided))

    np.testing.assert_array_equal(drawn["state"], np.concatenate(seen))


# --- random at an episode's start ----------------------------------------------------------------


def greedy(features):
    return np.tile([0.0, 0.0, 0.0, 1.0], (len(features), 1))


def actions_by_age(sequence):
    ring = sequence.replay.ring
    acted = np.flatnonzero(ring.action[: len(ring)] >= 0)
    acted = acted[acted >= 30]
    return {age: set(ring.action[acted][ring.age[acted] == age].tolist()) for age in range(6)}


@pytest.mark.parametrize("stack", [4, 2])
def test_the_seeds_rule_draws_actions_until_the_stack_is_whole(stack):
    sequence = Faked(
        lambda: Game(length=6, size=2),
        stack=stack,
        epsilon=0.0,
        policy=greedy,
        random_at_episode_start=True,
        replay_capacity_steps=2_000,
    )
    played(sequence, 400)

    by_age = actions_by_age(sequence)

    assert all(by_age[age] == {0, 1, 2, 3} for age in range(stack - 1))
    assert all(by_age[age] == {3} for age in range(stack - 1, 6))


@pytest.mark.parametrize("settings", [{}, {"random_at_episode_start": True, "stack": 1}])
def test_otherwise_no_action_is_forced_to_be_random(settings):
    sequence = Faked(lambda: Game(length=6, size=2), epsilon=0.0, policy=greedy, **settings)
    played(sequence, 100)

    assert set().union(*actions_by_age(sequence).values()) == {3}


def test_the_seeds_rule_never_holds_in_evaluation():
    sequence = Faked(lambda: Game(length=6, size=2), random_at_episode_start=True)
    twin = sequence.create_validation_instance(0.0, num_envs=2)
    twin.policy = greedy
    for _ in range(12):
        twin.simulate_single()
        assert twin.get_latest_action().tolist() == [3, 3]


# --- the protocol --------------------------------------------------------------------------------


def test_games_are_made_by_the_protocol_with_each_its_own_frame_cap(monkeypatch):
    asked = []

    def make(game, **settings):
        asked.append((game, settings))
        return Game(size=settings["frame_size"])

    monkeypatch.setattr(atari_module, "Atari", make)
    sequence = AtariSequence("ALE/Breakout-v5", protocol="dopamine", frame_size=5, fire_on_start=True, **SMALL)
    sequence.create_validation_instance(0.1, num_envs=1)
    expected = {
        "repeat_action_probability": 0.25,
        "frame_skip": 4,
        "max_frames": 2,
        "noop_max": 0,
        "full_action_space": False,
        "frame_cap": 108_000,
        "fire_on_start": True,
        "frame_size": 5,
    }
    assert asked == [("ALE/Breakout-v5", expected)] * 2

    asked.clear()
    given = {
        "repeat_action_probability": 0.5,
        "frame_skip": (2, 4),
        "max_frames": 1,
        "noop_max": 7,
        "full_action_space": True,
        "frame_cap": 400,
    }
    sequence = AtariSequence("breakout", protocol="nature-2015", evaluation_frame_cap=math.inf, **given, **SMALL)
    sequence.create_validation_instance(0.1, num_envs=1)

    expected = given | {"fire_on_start": False, "frame_size": 84}
    assert asked == [("breakout", expected), ("breakout", expected | {"frame_cap": math.inf})]


def test_training_and_evaluation_have_each_their_own_frame_cap():
    sequence = Faked()
    sequence.create_validation_instance(0.1, num_envs=2)

    assert [cap for _, cap in sequence.made] == [108_000, 18_000, 18_000]


def test_it_knows_the_protocol_with_what_deviates_from_it():
    sequence = Faked(protocol="nature-2015", frame_skip=3, reward_transform="sign")

    assert sequence.protocol.deviations == {"frame_skip": 3, "reward_transform": "sign"}
    assert Faked(protocol=get_protocol("dopamine")).protocol == get_protocol("dopamine")


def test_its_identity_tells_games_rules_and_pictures_apart():
    def identity(game="breakout", protocol="nature-2015", **settings):
        return AtariSequence(game, protocol=protocol, **SMALL | settings).get_identity()

    plain = identity()
    others = [
        identity("pong"),
        identity("space_invaders"),  # as many actions as Pong
        identity(protocol="dopamine"),
        identity(frame_skip=3),
        identity(fire_on_start=True),
        identity(frame_size=42),
        identity(stack=2),
        identity(noop_max=0),
    ]

    assert len({plain, *others}) == 1 + len(others)
    assert identity(seed=9, batch_size=4) == plain
    assert identity("BreakoutNoFrameskip-v4") == plain


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"protocol": None}, TypeError, "`protocol` must be a name or a Protocol. Received: protocol=None"),
        (
            {"protocol": "classic-control"},
            ValueError,
            "AtariSequence needs a protocol for Atari games. Received: protocol='classic-control'",
        ),
        ({"stack": 0}, ValueError, "`stack` must be at least 1. Received: stack=0"),
        ({"stack": 4.0}, TypeError, "`stack` must be an integer. Received: stack=4.0"),
        (
            {"random_at_episode_start": 1},
            TypeError,
            "`random_at_episode_start` must be True or False. Received: random_at_episode_start=1",
        ),
    ],
)
def test_arguments_are_checked(settings, error, text):
    settings = {"game": "breakout", "protocol": "nature-2015"} | settings
    with pytest.raises(error) as raised:
        AtariSequence(settings.pop("game"), **settings, **SMALL)
    assert str(raised.value) == text


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"game": "brekout"}, "did you mean 'breakout'"),
        ({"protocol": "nature"}, "did you mean 'nature-2015'"),
        ({"game": "Breakout-v0"}, "Breakout-v0 has repeat_action_probability=0.25.*nature-2015 has 0.0"),
        ({"reward_transform": "log"}, "`reward_transform` must be one of sign, clip, none. Received: .*'log'"),
        ({"frame_skip": (4, 4)}, "low must be below high"),
        ({"max_frames": 3}, "`max_frames` must be 2, or 1 for no maximum"),
        ({"frame_size": 0}, "`frame_size` must be at least 1"),
        ({"replay_capacity_steps": 5}, "`replay_capacity_steps` must be a multiple of num_envs = 1 and at least 6"),
    ],
)
def test_what_does_not_fit_is_refused(settings, text):
    settings = {"game": "breakout", "protocol": "nature-2015"} | SMALL | settings
    with pytest.raises(ValueError, match=text):
        AtariSequence(settings.pop("game"), **settings)


@pytest.mark.case("B056")
def test_an_option_that_it_does_not_have_is_refused_by_its_name():
    with pytest.raises(TypeError) as raised:
        AtariSequence("breakout", protocol="nature-2015", episodic_life=True, **SMALL)

    assert "'episodic_life'" in str(raised.value)
    assert "\n" not in str(raised.value)


FRESH_PROCESS = """
import sys
from dqn_lab import AtariSequence
few = dict(replay_capacity_steps=50, replay_min_steps=4, updates_per_epoch=1, epsilon=1.0)
present = sys.modules.get("ale_py")
sys.modules["ale_py"] = None
try:
    AtariSequence("ALE/Breakout-v5", protocol="dopamine", **few)
except ImportError as error:
    print(present, error)
del sys.modules["ale_py"]
print(AtariSequence("ALE/Breakout-v5", protocol="dopamine", **few)[0]["state"].shape)
"""


@pytest.mark.case("B126")
def test_an_ale_id_is_made_without_importing_ale_py_oneself():
    done = subprocess.run([sys.executable, "-c", FRESH_PROCESS], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == [
        "None Atari games need the package ale-py: pip install ale-py",
        "(32, 84, 84, 4)",
    ]


# --- compressed frames ---------------------------------------------------------------------------


def breakout(**settings):
    return AtariSequence(
        "breakout", protocol="breakout-v0", num_envs=2, **SMALL | {"replay_min_steps": 150, "n_step": 3} | settings
    )


def test_compressed_frames_give_the_minibatches_of_raw_ones_bit_for_bit():
    packed, raw = breakout(), breakout(replay_compression="none")
    for _ in range(4):  # past the ring's end, 200 rows
        for drawn, expected in ((packed[0], raw[0]), (packed.get_latest_feature(), raw.get_latest_feature())):
            np.testing.assert_equal(drawn, expected)
        packed.simulate(60), raw.simulate(60)
    assert type(packed.replay.ring.frames) is not type(raw.replay.ring.frames)
    assert packed.replay_bytes < 0.3 * raw.replay_bytes


def test_a_replay_that_will_not_fit_by_its_measured_size_is_refused_after_the_fill(monkeypatch):
    sequence = breakout(replay_capacity_steps=1_000_000)
    left = iter([2**34, 2**24])  # to its first chunk of frames, and after the fill
    monkeypatch.setattr(memory, "available_memory_bytes", lambda: next(left))
    with pytest.raises(ValueError, match=r"measured over 1\d\d steps.* replay_capacity_steps=\d+_000 would fit"):
        sequence.fill()
    assert sequence.steps == 150


def test_another_compression_is_refused():
    with pytest.raises(ValueError, match="replay_compression.*Received: replay_compression='zip'"):
        breakout(replay_compression="zip")


def test_a_new_sequence_of_breakout_goes_on_bit_for_bit():
    whole, other = breakout(), breakout(seed=5)
    whole.simulate(190)
    other.set_state(everything(whole))
    for _ in range(4):
        whole.simulate(100), other.simulate(100)
        np.testing.assert_equal(everything(other), everything(whole))
        np.testing.assert_equal(other[0], whole[0])
    assert whole.episodes > 0
