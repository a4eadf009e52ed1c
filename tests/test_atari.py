import hashlib
import math
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import cv2
import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from dqn_lab.environments import atari, emulator
from dqn_lab.environments.atari import Atari
from dqn_lab.protocols import get_protocol

NOOP, FIRE, RIGHT, LEFT = range(4)  # Breakout's minimal action set
RIGHT_IN_ALE = 3


class ScriptedEmulator:
    """Plays frame k of a script at the k-th `act`; frame 0 is what a reset shows.

    Frames are dicts of value (of all pixels), reward, lives, over; `tape` keeps the calls.
    """

    def __init__(self, frames):
        self.frames = [{"value": 0, "reward": 0, "lives": 3, "over": False, **f} for f in frames]
        self.position = 0
        self.tape = []

    @property
    def frame(self):
        return self.frames[min(self.position, len(self.frames) - 1)]

    def act(self, action):
        assert not self.frame["over"], "a frame was played after the end of the game"
        self.position += 1
        self.tape.append(action.name if hasattr(action, "name") else ("NOOP", "FIRE")[action])
        return self.frame["reward"]

    def reset_game(self):
        self.position = 0
        self.tape.append("reset")

    def getScreenGrayscale(self, out):
        out[:] = self.frame["value"]

    def lives(self):
        return self.frame["lives"]

    def game_over(self, with_truncation):
        return self.frame["over"]

    def getEpisodeFrameNumber(self):
        return self.position


@pytest.fixture
def scripted(monkeypatch):
    """Returns make(frames, **arguments of Atari) -> (started env, its emulator)."""

    def make(frames, **kwargs):
        emulator = ScriptedEmulator(frames)
        monkeypatch.setattr(atari, "load_emulator", lambda *arguments: emulator)
        env = Atari("breakout", **kwargs)
        env.reset(seed=0)
        return env, emulator

    atari._describe("breakout")  # with the real emulator, once
    return make


def frames_of(values, **kwargs):
    return [{"value": 0}, *({"value": value, **kwargs} for value in values)]


# --- a step's window -------------------------------------------------------------------------


@pytest.mark.case("B050")
@pytest.mark.parametrize(("values", "pooled"), [((9, 4, 100, 59), 100), ((100, 4, 9, 59), 59), ((1, 2, 7, 3), 7)])
def test_a_picture_is_the_maximum_of_the_last_two_raw_frames(scripted, values, pooled):
    env, _ = scripted(frames_of(values))
    observation, *_ = env.step(NOOP)
    assert observation.dtype == np.uint8
    assert observation.shape == (84, 84)
    assert np.unique(observation).tolist() == [pooled]


def test_without_the_maximum_a_picture_is_the_last_raw_frame(scripted):
    env, _ = scripted(frames_of((9, 4, 100, 59)), max_frames=1)
    assert np.unique(env.step(NOOP)[0]).tolist() == [59]


def test_a_skip_of_one_still_takes_the_maximum_with_the_frame_before(scripted):
    env, _ = scripted(frames_of((9, 4, 100, 59)), frame_skip=1)
    pictures = [env.step(NOOP)[0].max() for _ in range(4)]
    assert pictures == [9, 9, 100, 100]


@pytest.mark.parametrize(("length", "picture"), [(1, 10), (2, 20), (3, 30), (4, 30)])
@pytest.mark.parametrize("end", ["game over", "cap"])
def test_at_an_early_end_the_picture_is_of_the_last_frames_really_played(scripted, length, picture, end):
    frames = frames_of((10, 20, 30, 5, 99, 99))
    if end == "game over":
        frames[length]["over"] = True
    env, emulator = scripted(frames, frame_cap=length if end == "cap" else 108_000)
    observation, _, terminated, truncated, info = env.step(NOOP)
    assert (terminated, truncated) == (end == "game over", end == "cap")
    assert emulator.position == length
    assert np.unique(observation).tolist() == [picture]
    assert info["frames"] == 4  # what the step stands for, not what was left of it


def test_the_game_over_picture_pools_two_frames_whichever_frame_is_the_last(scripted):
    frames = frames_of((50, 10))
    frames[2]["over"] = True
    env, _ = scripted(frames)
    assert env.step(NOOP)[0].max() == 50


@given(rewards=st.lists(st.integers(-5, 500), min_size=12, max_size=12), over=st.integers(1, 12))
def test_a_steps_reward_is_the_sum_of_its_frames_up_to_the_games_end(rewards, over):
    frames = [{}, *({"reward": reward} for reward in rewards)]
    frames[over]["over"] = True
    emulator = ScriptedEmulator(frames)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(atari, "load_emulator", lambda *arguments: emulator)
        env = Atari("breakout")
        env.reset(seed=0)
        sums, ended = [], False
        while not ended:
            _, reward, ended, truncated, _ = env.step(NOOP)
            assert isinstance(reward, float)
            assert not truncated
            sums.append(reward)
    expected = [sum(rewards[i : min(i + 4, over)]) for i in range(0, over, 4)]
    assert sums == expected


def test_each_picture_is_a_new_array(scripted):
    env, _ = scripted(frames_of(range(100)))
    first = env.step(NOOP)[0]
    kept = first.copy()
    second = env.step(NOOP)[0]
    np.testing.assert_array_equal(first, kept)
    assert not np.shares_memory(first, second)


# --- lives -----------------------------------------------------------------------------------


@pytest.mark.case("B053")
def test_a_lost_life_is_reported_and_the_game_goes_on_without_a_reset(scripted):
    lives = [3] * 4 + [2] * 5 + [1] * 3 + [0]  # after steps 0..12: lost at 4, 9 and 12
    frames = [{"lives": n, "reward": 1, "over": n == 0} for n in lives]
    env, emulator = scripted(frames, frame_skip=1)
    lost, total, steps, ended = [], 0.0, 0, False
    while not ended:
        _, reward, ended, _, info = env.step(NOOP)
        steps += 1
        total += reward
        if info["life_lost"]:
            lost.append(steps)
    assert lost == [4, 9, 12]
    assert (steps, total) == (12, 12.0)
    assert emulator.tape.count("reset") == 1
    env.reset()
    assert emulator.tape.count("reset") == 2


@pytest.mark.case("B055")
@pytest.mark.parametrize(("lives", "lost"), [((0, 0, 0, 0), []), ((3, 4, 3, 3), [2]), ((4, 2, 2, 1), [1, 3])])
def test_only_a_drop_to_a_lower_count_is_a_lost_life(scripted, lives, lost):
    env, _ = scripted([{"lives": n} for n in lives], frame_skip=1)
    infos = [env.step(NOOP)[4] for _ in range(3)]
    assert [step for step, info in enumerate(infos, 1) if info["life_lost"]] == lost
    assert [info["lives"] for info in infos] == list(lives[1:])


@pytest.mark.case("B056")
def test_lives_are_read_from_the_emulator_at_reset_and_step():
    env = Atari("breakout")
    info = env.reset(seed=0)[1]
    assert info == {"lives": 5, "life_lost": False, "frames": 0, "episode_frame_number": 0}
    seen = {5}
    lost = ended = False
    while not ended:
        # FIRE serves each ball, which then nobody returns.
        _, _, ended, _, info = env.step(FIRE)
        lost = lost or info["life_lost"]
        seen.add(info["lives"])
    assert lost
    assert seen == {0, 1, 2, 3, 4, 5}


# --- the frame cap ---------------------------------------------------------------------------


@pytest.mark.case("B061")
def test_noops_alone_reach_the_frame_cap_after_exactly_its_steps():
    env = Atari("breakout", frame_cap=400)
    env.reset(seed=0)
    steps, total, terminated, truncated = 0, 0.0, False, False
    while not (terminated or truncated):
        _, reward, terminated, truncated, _ = env.step(NOOP)
        steps += 1
        total += reward
    assert (steps, total, terminated, truncated) == (100, 0.0, False, True)


@pytest.mark.parametrize(("cap", "steps", "last"), [(8, 2, 4), (9, 3, 1), (11, 3, 3)])
def test_the_cap_truncates_at_its_very_frame(scripted, cap, steps, last):
    env, emulator = scripted(frames_of(range(1, 50), reward=1), frame_cap=cap)
    results = [env.step(NOOP) for _ in range(steps)]
    assert [result[3] for result in results] == [False] * (steps - 1) + [True]
    assert emulator.position == cap
    assert results[-1][1] == last


def test_a_game_that_ends_on_the_caps_last_frame_is_terminated_not_truncated(scripted):
    frames = frames_of(range(8))
    frames[8]["over"] = True
    env, _ = scripted(frames, frame_cap=8)
    env.step(NOOP)
    _, _, terminated, truncated, _ = env.step(NOOP)
    assert (terminated, truncated) == (True, False)


def test_the_cap_counts_anew_in_each_game_and_not_the_resets_frames(scripted):
    env, emulator = scripted(frames_of(range(200)), frame_cap=8, noop_max=30, fire_on_start=True)
    for _ in range(3):
        before = emulator.position
        assert before > 4
        assert [env.step(NOOP)[3] for _ in range(2)] == [False, True]
        assert emulator.position == before + 8
        env.reset()


def test_an_open_cap_never_truncates(scripted):
    env, _ = scripted([{}], frame_cap=math.inf)
    assert not any(env.step(NOOP)[3] for _ in range(1000))


# --- the reset's own frames ------------------------------------------------------------------


def test_a_game_starts_with_1_to_noop_max_frames_each_number_equally_likely(scripted):
    env, emulator = scripted([{}], noop_max=5)
    counts = np.zeros(7, int)
    for _ in range(1000):
        emulator.tape.clear()
        env.reset()
        assert emulator.tape[0] == "reset"
        assert set(emulator.tape[1:]) == {"NOOP"}
        counts[len(emulator.tape) - 1] += 1
    assert counts[[0, 6]].tolist() == [0, 0]
    assert (np.abs(counts[1:6] - 200) < 60).all()  # 4.7 standard deviations


def test_without_noops_a_reset_plays_no_frame(scripted):
    env, emulator = scripted([{}])
    env.reset()
    assert emulator.tape == ["reset", "reset"]


def test_a_game_that_ends_in_its_noops_is_reset_again_and_goes_on(scripted):
    frames = frames_of((5, 6, 7))
    frames[3]["over"] = True
    env, emulator = scripted(frames, noop_max=30)
    for _ in range(50):
        emulator.tape.clear()
        observation, info = env.reset()
        noops = emulator.tape.count("NOOP")
        assert emulator.tape.count("reset") == 1 + noops // 3
        assert emulator.position == noops % 3
        assert observation.max() == (0, 5, 6)[noops % 3]
        assert info["lives"] == 3


def test_the_first_picture_pools_only_frames_of_its_own_game(scripted):
    env, _ = scripted([{"value": 7}, *frames_of((90, 91, 92, 93))[1:]])
    env.step(NOOP)
    assert env.reset()[0].max() == 7


# --- FIRE ------------------------------------------------------------------------------------


def ball_height(env):
    return int(env._emulator.getRAM()[101])


@pytest.mark.case("B063")
def test_breakout_waits_for_fire_and_fire_on_start_presses_it():
    waiting, serving = Atari("breakout"), Atari("breakout", fire_on_start=True)
    waiting.reset(seed=0)
    serving.reset(seed=0)
    for _ in range(10):
        waiting.step(NOOP)
    for _ in range(2):
        serving.step(NOOP)
    assert ball_height(waiting) == 0
    assert ball_height(serving) != 0


@pytest.mark.case("B063")
def test_fire_on_start_serves_again_after_each_lost_life():
    env = Atari("breakout", fire_on_start=True)
    env.reset(seed=0)
    lost, ended, steps = 0, False, 0
    while not ended and steps < 1000:
        _, _, ended, _, info = env.step(NOOP)
        steps += 1
        if info["life_lost"] and not ended:
            lost += 1
            assert ball_height(env) != 0
    assert (lost, ended) == (4, True)


def test_a_hook_is_called_after_each_frame_with_its_reward(scripted):
    env, emulator = scripted([{}, {"reward": 1}, {}, {"reward": 2}, {}, {"reward": 4, "over": True}])
    assert env.on_frame is None
    told = []
    env.on_frame = lambda reward: told.append((emulator.position, reward))
    assert env.step(NOOP)[1] == 3
    assert told == [(1, 1), (2, 0), (3, 2), (4, 0)]
    env.step(NOOP)
    assert told[4:] == [(5, 4)]


def test_a_hook_is_called_for_the_frames_of_a_reset_too_and_changes_nothing():
    def play(hook):
        env = Atari("breakout", noop_max=30, repeat_action_probability=0.25, fire_on_start=True)
        env.on_frame = hook
        info = env.reset(seed=3)[1]
        return [info["episode_frame_number"], *(env.step(RIGHT)[0].tobytes() for _ in range(20))]

    told = []
    first, *_ = watched = play(told.append)
    assert 4 < first <= 34
    assert len(told) == first + 80
    assert watched == play(None)


@pytest.mark.case("B063")
def test_fire_on_start_presses_nothing_in_a_game_without_fire():
    env = Atari("freeway", fire_on_start=True)
    assert env.get_action_meanings() == ["NOOP", "UP", "DOWN"]
    assert env.reset(seed=0)[1]["episode_frame_number"] == 0
    full = Atari("freeway", fire_on_start=True, full_action_space=True)
    assert full.reset(seed=0)[1]["episode_frame_number"] == 4


def test_fire_is_pressed_after_the_noops_and_after_a_lost_life_with_its_reward(scripted):
    frames = [{"lives": 3}] * 6 + [{"lives": 2, "reward": 10}] * 20
    env, emulator = scripted(frames, noop_max=1, fire_on_start=True)
    assert emulator.tape == ["reset", "NOOP", *["FIRE"] * 4]
    emulator.tape.clear()
    _, reward, _, _, info = env.step(LEFT)
    assert emulator.tape == ["LEFT"] * 4 + ["FIRE"] * 4
    assert reward == 80.0
    assert (info["life_lost"], info["lives"], info["frames"]) == (True, 2, 4)
    emulator.tape.clear()
    env.step(LEFT)
    assert emulator.tape == ["LEFT"] * 4


def test_fire_after_a_lost_life_stops_at_the_games_end_and_at_the_cap(scripted):
    over = [{}, *[{"lives": 2}] * 5, {"lives": 0, "over": True}]
    env, emulator = scripted([{}] * 4 + over, fire_on_start=True)
    assert env.step(LEFT)[2:4] == (True, False)
    assert emulator.tape[5:] == ["LEFT"] * 4 + ["FIRE"] * 2
    env, emulator = scripted([{}] * 5 + [{"lives": 2}] * 20, fire_on_start=True, frame_cap=7)
    assert env.step(LEFT)[2:4] == (False, True)
    assert emulator.tape[5:] == ["LEFT"] * 4 + ["FIRE"] * 3


def test_the_last_life_presses_no_fire(scripted):
    frames = [{"lives": 1}] * 7 + [{"lives": 0, "over": True}]
    env, emulator = scripted(frames, fire_on_start=True)
    assert env.step(LEFT)[2] is True
    assert emulator.tape[5:] == ["LEFT"] * 3


# --- frame skip ------------------------------------------------------------------------------


@pytest.mark.case("B049")
@pytest.mark.parametrize(
    ("game", "protocol"),
    [
        ("ALE/Breakout-v5", "dopamine"),
        ("Breakout-v0", "breakout-v0"),
        ("BreakoutNoFrameskip-v4", "nature-2015"),
    ],
)
def test_no_id_skips_twice(game, protocol):
    sticky = get_protocol(protocol).repeat_action_probability
    env = Atari(game, repeat_action_probability=sticky, noop_max=0)
    env.reset(seed=0)
    infos = [env.step(NOOP)[4] for _ in range(10)]
    assert infos[-1]["episode_frame_number"] == 40
    assert {info["frames"] for info in infos} == {4}


def test_a_skip_pair_draws_low_to_high_minus_1_and_tells_the_frames(scripted):
    env, emulator = scripted([{}], frame_skip=(3, 5))
    drawn = []
    for _ in range(500):
        before = emulator.position
        frames = env.step(NOOP)[4]["frames"]
        assert emulator.position - before == frames
        drawn.append(frames)
    assert set(drawn) == {3, 4}
    assert abs(drawn.count(3) - 250) < 50  # 4.5 standard deviations


def test_the_drawn_skips_come_from_the_environments_own_generator(scripted):
    env, _ = scripted([{}], frame_skip=(1, 9))

    def draw(seed):
        env.reset(seed=seed)
        return [env.step(NOOP)[4]["frames"] for _ in range(30)]

    np.random.seed(0)
    first = draw(4)
    np.random.seed(1)
    assert draw(4) == first
    assert draw(5) != first


# --- the real emulator -----------------------------------------------------------------------


def trajectory(env, steps, *, seed, action_seed=0):
    """A hash over pictures, rewards, ends and infos of random play through several games."""
    actions = np.random.default_rng(action_seed)
    digest = hashlib.sha256(env.reset(seed=seed)[0])
    for _ in range(steps):
        observation, *rest = env.step(int(actions.integers(env.action_space.n)))
        digest.update(observation)
        digest.update(repr(rest).encode())
        if rest[1] or rest[2]:
            digest.update(env.reset()[0])
    return digest.hexdigest()


def test_the_observation_is_the_pooled_luminance_resized_by_area():
    env = Atari("breakout")
    env.reset(seed=0)
    env.step(FIRE)
    screens = []
    for _ in range(4):
        env._emulator.act(RIGHT_IN_ALE)
        screens.append(env._emulator.getScreenGrayscale())
    expected = cv2.resize(np.maximum(*screens[-2:]), (84, 84), interpolation=cv2.INTER_AREA)
    again = Atari("breakout")
    again.reset(seed=0)
    again.step(FIRE)
    np.testing.assert_array_equal(again.step(RIGHT)[0], expected)
    assert len(np.unique(expected)) > 5


@pytest.mark.parametrize("skip", [4, (3, 5)])
def test_a_seed_fixes_everything_that_follows(skip):
    env = Atari("breakout", repeat_action_probability=0.25, frame_skip=skip, noop_max=30)
    first = trajectory(env, 150, seed=7)
    assert trajectory(env, 150, seed=7) == first
    other = Atari("breakout", repeat_action_probability=0.25, frame_skip=skip, noop_max=30)
    assert trajectory(other, 150, seed=7) == first
    assert trajectory(other, 150, seed=8) != first


def test_a_plain_reset_goes_on_with_the_generators():
    env = Atari("breakout", noop_max=30)
    env.reset(seed=0)
    numbers = [env.reset()[1]["episode_frame_number"] for _ in range(8)]
    assert len(set(numbers)) > 1
    env.reset(seed=0)
    assert [env.reset()[1]["episode_frame_number"] for _ in range(8)] == numbers


def test_an_environment_without_a_seed_plays_too():
    env = Atari("pong")
    assert env.reset()[0].shape == (84, 84)
    assert env.step(NOOP)[4]["episode_frame_number"] == 4


def test_an_action_that_always_sticks_is_never_taken():
    # NOOP comes before a game's first frame and sticks: the ball isn't served.
    sticky, plain = (Atari("breakout", repeat_action_probability=p) for p in (1.0, 0.0))
    for env in (sticky, plain):
        env.reset(seed=0)
        for _ in range(10):
            env.step(FIRE)
    assert ball_height(sticky) == 0
    assert ball_height(plain) != 0


def test_sticky_actions_repeat_a_quarter_of_the_frames():
    env = Atari("breakout", repeat_action_probability=0.25, frame_skip=1)
    env.reset(seed=0)
    served = 0
    for _ in range(400):
        env._begin_game()
        env._played = 0
        env.step(FIRE)
        served += ball_height(env) != 0
    assert abs(served - 300) < 40  # 4.6 standard deviations


def test_an_ids_sticky_probability_is_used_when_none_is_given():
    assert Atari("Breakout-v0").repeat_action_probability == 0.25
    assert Atari("BreakoutNoFrameskip-v4").repeat_action_probability == 0.0
    assert Atari("breakout").repeat_action_probability == 0.0
    assert Atari("breakout", repeat_action_probability=0.1).repeat_action_probability == 0.1


def test_the_full_action_set_has_18_actions_and_presses_the_right_keys():
    minimal, full = Atari("breakout"), Atari("breakout", full_action_space=True)
    assert minimal.get_action_meanings() == ["NOOP", "FIRE", "RIGHT", "LEFT"]
    assert (minimal.action_space.n, full.action_space.n) == (4, 18)
    left = full.get_action_meanings().index("LEFT")
    pictures = []
    for env, action in ((minimal, LEFT), (full, left)):
        env.reset(seed=0)
        pictures.append([env.step(action)[0] for _ in range(5)])
    np.testing.assert_array_equal(*pictures)


@pytest.mark.parametrize("size", [64, 84, 250])
def test_the_picture_is_a_square_of_the_size_asked_for(size):
    env = Atari("pong", frame_size=size)
    observation, _ = env.reset(seed=0)
    assert observation.shape == env.observation_space.shape == (size, size)
    assert observation.dtype == env.observation_space.dtype == np.uint8


@pytest.mark.case("B124")
def test_threads_that_make_and_play_games_at_once_get_what_one_thread_gets():
    def play(seed):
        env = Atari("pong")
        digest = trajectory(env, 10, seed=seed, action_seed=seed)
        env.close()
        return digest

    alone = [play(seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(lambda seed: [play(seed) for _ in range(5)], range(8)))
    assert together == [[digest] * 5 for digest in alone]
    assert len(set(alone)) == 8


@pytest.mark.case("B124")
def test_emulators_are_built_one_at_a_time(monkeypatch):
    free = []

    class Emulator:
        setLoggerMode = staticmethod(lambda mode: None)

        def __init__(self):
            free.append(emulator._BUILDING.acquire(blocking=False))

        def setFloat(self, name, value):
            pass

        setInt = setFloat

        def loadROM(self, path):
            free.append(emulator._BUILDING.acquire(blocking=False))

    ale_py = SimpleNamespace(ALEInterface=Emulator, LoggerMode=SimpleNamespace(Error=2))
    monkeypatch.setattr(emulator, "import_ale", lambda: ale_py)
    emulator.load_emulator("pong", 0)
    assert free == [False, False]
    assert not emulator._BUILDING.locked()


def test_the_environment_keeps_gymnasiums_contract():
    env = Atari("breakout", noop_max=30, repeat_action_probability=0.25, render_mode="rgb_array")
    assert check_env(env, skip_render_check=True) is None


def test_lanes_of_gymnasiums_vector_environment_report_lives_and_frames():
    lanes = gymnasium.vector.SyncVectorEnv([lambda: Atari("breakout")] * 2)
    lanes.reset(seed=[1, 2])
    _, _, _, _, info = lanes.step(np.array([FIRE, NOOP]))
    assert info["lives"].tolist() == [5, 5]
    assert info["life_lost"].tolist() == [False, False]
    assert info["frames"].tolist() == [4, 4]
    lanes.close()


def test_making_and_playing_a_game_prints_nothing(capfd):
    env = Atari("space_invaders")
    env.reset(seed=0)
    env.step(NOOP)
    assert capfd.readouterr() == ("", "")


# --- pictures to record ----------------------------------------------------------------------


def test_render_gives_the_whole_screen_in_colour_at_the_games_speed():
    env = Atari("breakout", render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert (picture.shape, picture.dtype) == ((210, 160, 3), np.uint8)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 5
    assert env.metadata["render_fps"] == 15
    assert Atari("breakout", frame_skip=(2, 5)).metadata["render_fps"] == 20
    assert Atari("breakout", frame_skip=1).metadata["render_fps"] == 60


def test_render_without_its_mode_is_refused():
    env = Atari("breakout")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="render_mode='rgb_array'. Received: render_mode=None"):
        env.render()


def test_a_window_is_refused_in_one_line():
    with pytest.raises(ValueError, match="opens no window.*render_mode='human'") as raised:
        Atari("breakout", render_mode="human")
    assert "\n" not in str(raised.value)


# --- state -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("game", "skip"), [("breakout", (3, 5)), ("pong", 4), ("pong", 1)])
def test_a_state_set_in_a_new_environment_goes_on_bit_for_bit(game, skip):
    kwargs = dict(repeat_action_probability=0.25, frame_skip=skip, noop_max=30)
    env, other = Atari(game, **kwargs), Atari(game, **kwargs)
    trajectory(env, 60, seed=3)
    other.set_state(env.get_state())
    actions = np.random.default_rng(1)
    for _ in range(300):
        action = int(actions.integers(env.action_space.n))
        one, two = env.step(action), other.step(action)
        np.testing.assert_array_equal(one[0], two[0])
        assert one[1:] == two[1:]
        if one[2]:
            np.testing.assert_array_equal(env.reset()[0], other.reset()[0])


@pytest.mark.parametrize("game", ["breakout", "qbert", "tetris"])  # the last two need care in ale-py 0.12.1
def test_a_game_goes_on_bit_for_bit_from_any_frame(game):
    # One raw frame a step: a quarter of the first steps repeats an action from before the save.
    env, other = (Atari(game, repeat_action_probability=0.25, frame_skip=1) for _ in range(2))
    env.reset(seed=4)
    actions = np.random.default_rng(2)
    assert env.why_inexact() is None
    for _ in range(60):
        for _ in range(5):
            env.step(int(actions.integers(env.action_space.n)))
        other.set_state(env.get_state())
        for action in actions.integers(env.action_space.n, size=3).tolist():
            one, two = env.step(action), other.step(action)
            np.testing.assert_array_equal(one[0], two[0])
            assert one[1:] == two[1:]
            np.testing.assert_array_equal(env._emulator.getRAM(), other._emulator.getRAM())


def test_a_sticky_frame_repeats_the_action_before_it(scripted):
    env, emulator = scripted([{}], repeat_action_probability=0.5, frame_skip=1)
    draws = iter([0.4, 0.5, 0.4, 0.6, 0.49])
    env.np_random = SimpleNamespace(random=lambda: next(draws))
    for action in (FIRE, RIGHT, LEFT, FIRE, LEFT):
        env.step(action)
    assert emulator.tape[-5:] == ["NOOP", "RIGHT", "RIGHT", "FIRE", "FIRE"]


def test_a_game_begins_with_no_action_to_stick(scripted):
    env, emulator = scripted([{}], repeat_action_probability=1.0, frame_skip=1)
    env._held = env._actions[FIRE]
    env.reset()
    env.step(LEFT)
    assert emulator.tape[-1] == "NOOP"


def test_a_game_that_the_emulator_restores_wrongly_is_said_to_be_inexact(monkeypatch):
    import ale_py

    monkeypatch.setattr(emulator, "restore_emulator", lambda emulator, saved: None)
    with_broken_restore = emulator.restores_exactly.__wrapped__
    monkeypatch.setattr(atari, "restores_exactly", with_broken_restore)
    assert Atari("pong").why_inexact() == f"ale-py {ale_py.__version__} restores pong wrongly"


def test_a_game_is_tried_once(monkeypatch):
    Atari("pong").why_inexact()
    monkeypatch.setattr(emulator, "load_emulator", None)
    assert Atari("pong").why_inexact() is None


def test_a_state_keeps_the_screens_the_lives_and_the_frames_played(scripted):
    frames = frames_of((50, 1, 2, 3))
    env, emulator = scripted(frames, frame_skip=1, frame_cap=2)
    emulator.cloneState = lambda include_rng: SimpleNamespace(serialize=lambda: b"")
    env.step(RIGHT)
    saved = env.get_state()
    assert saved["held"] == RIGHT_IN_ALE
    assert saved["screens"][:, 0, 0].tolist() == [0, 50]
    assert (saved["played"], saved["lives"], saved["ended"]) == (1, 3, False)
    saved["screens"][:] = 9
    assert env.step(NOOP)[0].max() == 50  # a copy


def test_a_game_goes_on_to_its_own_cap_from_a_state():
    env, other = Atari("pong", frame_cap=12), Atari("pong", frame_cap=12)
    env.reset(seed=0)
    env.step(NOOP)
    other.set_state(env.get_state())
    assert [other.step(NOOP)[3] for _ in range(2)] == [False, True]


def test_a_state_of_another_game_is_refused():
    pong = Atari("pong")
    pong.reset(seed=0)
    with pytest.raises(ValueError, match="must be one of 'breakout'. Received: rom='pong'"):
        Atari("breakout").set_state(pong.get_state())


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        ({"emulator": b"no state"}, "must be a whole one of the same game. Received: bytes=8"),
        ({"emulator": None}, "must be a whole one of the same game. Received: bytes=None"),
        ({"screens": np.zeros((2, 84, 84))}, r"have the shape \(2, 210, 160\). Received: shape=\(2, 84, 84\)"),
        ({"generator": {"bit_generator": "MT19937"}}, "must be one of PCG64. Received: generator="),
    ],
)
def test_a_broken_state_is_refused_in_one_line(broken, text):
    env = Atari("pong")
    env.reset(seed=0)
    with pytest.raises(ValueError, match=text) as raised:
        env.set_state(env.get_state() | broken)
    assert "\n" not in str(raised.value)


def test_a_state_that_lacks_something_is_refused():
    env = Atari("pong")
    with pytest.raises(ValueError, match="what `get_state` returned for Atari. Received: no emulator, held, screens"):
        env.set_state({"rom": "pong"})


@pytest.mark.parametrize("call", ["get_state", "render"])
def test_what_needs_a_game_is_refused_before_the_first_reset(call):
    env = Atari("breakout", render_mode="rgb_array")
    with pytest.raises(ValueError, match=rf"{call}\(\) needs a game: call reset\(\) first"):
        getattr(env, call)()


# --- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [-1, 4, np.int64(7)])
def test_an_action_out_of_range_is_refused(scripted, action):
    env, _ = scripted([{}])
    with pytest.raises(ValueError, match=f"action must be from 0 to 3. Received: action={action}"):
        env.step(action)


@pytest.mark.parametrize("action", [1.0, None, np.array([1, 2])])
def test_an_action_that_is_no_integer_is_refused(scripted, action):
    env, _ = scripted([{}])
    with pytest.raises(TypeError, match="action must be an integer. Received: action="):
        env.step(action)


def test_a_step_without_a_running_game_is_refused(scripted):
    text = r"No game is running: call reset\(\) first. Received: action=0"
    with pytest.raises(ValueError, match=text):
        Atari("breakout").step(NOOP)
    env, _ = scripted([{}], frame_cap=4)
    env.step(NOOP)
    with pytest.raises(ValueError, match=text):
        env.step(NOOP)


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"repeat_action_probability": 1.5}, "`repeat_action_probability` must lie within 0 and 1"),
        ({"frame_skip": 0}, "`frame_skip` must be at least 1"),
        ({"frame_skip": (5, 3)}, "low must be below high"),
        ({"max_frames": 3}, "`max_frames` must be 2, or 1"),
        ({"noop_max": -1}, "`noop_max` must be at least 0"),
        ({"frame_cap": 0}, "`frame_cap` must be at least 1"),
        ({"frame_size": 0}, "`frame_size` must be at least 1"),
    ],
)
def test_an_argument_out_of_range_is_refused(kwargs, text):
    with pytest.raises(ValueError, match=f"{text}.*Received: {next(iter(kwargs))}="):
        Atari("breakout", **kwargs)


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"frame_size": 84.0}, "must be an integer"),
        ({"noop_max": 1.5}, "must be an integer"),
        ({"fire_on_start": 1}, "must be True or False"),
        ({"full_action_space": 0}, "must be True or False"),
        ({"repeat_action_probability": "0.25"}, "must be a number"),
    ],
)
def test_an_argument_of_another_type_is_refused(kwargs, text):
    name = next(iter(kwargs))
    with pytest.raises(TypeError, match=f"`{name}` {text}. Received: {name}="):
        Atari("breakout", **kwargs)


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"repeat_action_probability": 0.0}, "repeat_action_probability=0.25.* has 0.0"),
        ({"full_action_space": True}, "full_action_space=False.* has True"),
    ],
)
def test_an_argument_against_the_ids_own_value_is_refused_with_both(kwargs, text):
    with pytest.raises(ValueError, match=f"The id ALE/Breakout-v5 has {text}"):
        Atari("ALE/Breakout-v5", **kwargs)


def test_an_unknown_game_is_refused_with_the_closest_name():
    with pytest.raises(ValueError, match="did you mean 'breakout'. Received: game='braekout'"):
        Atari("braekout")


def test_a_missing_ale_py_is_refused_when_a_game_is_made(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(ImportError, match="^Atari games need the package ale-py: pip install"):
        Atari("breakout")
