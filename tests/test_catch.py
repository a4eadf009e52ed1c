import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from dqn_lab.environments.catch import Catch

VARIANTS = ("bsuite", "kaixhin")


def cells(observation):
    """Row and columns of the lit cells."""
    return [tuple(cell) for cell in np.argwhere(observation[..., 0])]


def start_with_ball_in(column, **kwargs):
    env = Catch(**kwargs)
    for seed in range(200):
        observation, _ = env.reset(seed=seed)
        if cells(observation)[0] == (0, column):
            return env
    raise LookupError(column)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_environment_keeps_gymnasiums_contract(variant):
    env = Catch(variant, render_mode="rgb_array")
    assert check_env(env, skip_render_check=True) is None


def test_the_registered_id_makes_both_variants():
    env = gymnasium.make("dqn_lab/Catch-v0")
    assert env.reset(seed=0)[0].shape == (10, 5, 1)
    large = gymnasium.make("dqn_lab/Catch-v0", variant="kaixhin", render_mode="rgb_array")
    assert large.reset(seed=0)[0].shape == (24, 24, 1)
    assert large.render().shape == (384, 384, 3)


def test_the_ball_falls_straight_for_nine_steps_to_the_bottom_row():
    env = start_with_ball_in(4)
    rows = []
    for _ in range(9):
        observation, reward, terminated, truncated, info = env.step(1)
        rows.append(cells(observation))
        assert (truncated, info) == (False, {})
    assert rows[:8] == [[(row, 4), (9, 2)] for row in range(1, 9)]
    assert rows[8] == [(9, 2), (9, 4)]
    assert (reward, terminated) == (-1.0, True)


def test_actions_0_1_2_are_left_stay_right_and_stop_at_the_sides():
    env = start_with_ball_in(0)
    paddle = [cells(env.step(action)[0])[1][1] for action in (0, 0, 0, 1, 2, 2, 2, 2)]
    assert paddle == [1, 0, 0, 0, 1, 2, 3, 4]


@given(seed=st.integers(0, 2**31), column=st.integers(0, 4))
def test_the_reward_is_1_exactly_where_ball_and_paddle_meet_else_minus_1(seed, column):
    env = Catch()
    ball = cells(env.reset(seed=seed)[0])[0][1]
    rewards = []
    for step in range(9):
        if step < abs(column - 2):
            action = 0 if column < 2 else 2
        else:
            action = 1
        _, reward, terminated, _, _ = env.step(action)
        rewards.append(reward)
    assert terminated
    assert rewards == [0.0] * 8 + [1.0 if ball == column else -1.0]


def test_every_column_is_drawn_about_equally_often():
    env = Catch()
    env.reset(seed=3)
    columns = [cells(env.reset()[0])[0][1] for _ in range(2000)]
    counts = np.bincount(columns, minlength=5)
    assert (np.abs(counts - 400) < 80).all()  # 4.5 standard deviations


def test_kaixhins_paddle_is_two_wide_starts_in_the_middle_and_has_its_own_actions():
    env = Catch("kaixhin")
    observation, _ = env.reset(seed=0)
    assert cells(observation)[1:] == [(23, 11), (23, 12)]
    paddle = [cells(env.step(action)[0])[1][1] for action in (0, 1, 1, 2)]
    assert paddle == [11, 10, 9, 10]
    for _ in range(12):
        observation = env.step(2)[0]
    assert cells(observation)[1:] == [(23, 22), (23, 23)]


def test_kaixhins_game_takes_23_steps_and_pays_1_or_0():
    env = Catch("kaixhin")
    env.reset(seed=1)
    seen = set()
    for _ in range(60):
        total = 0.0
        for step in range(1, 24):
            observation, reward, terminated, truncated, _ = env.step(0)
            total += reward
            assert terminated == (step == 23)
        # In the last row a caught ball covers a cell of the paddle, which is 11 or 12.
        caught = len(cells(observation)) == 2
        assert total == (1.0 if caught else 0.0)
        seen.add(total)
        env.reset()
    assert seen == {0.0, 1.0}


@given(seed=st.integers(0, 2**31))
def test_kaixhins_ball_moves_at_most_a_third_of_a_column_a_row_and_stays_inside(seed):
    env = Catch("kaixhin")
    env.reset(seed=seed)
    columns = [env.get_state()["ball"][1]]
    for _ in range(23):
        env.step(0)
        columns.append(env.get_state()["ball"][1])
    moved = np.abs(np.diff(columns))
    assert 0 <= min(columns) <= max(columns) <= 23
    assert moved.max() <= 1 / 3 + 1e-9
    whole = np.isclose(moved, moved.max())
    assert whole.sum() >= 21  # all but the one or two rows in which it bounced


@pytest.mark.parametrize(("column", "slope", "after"), [(0.25, -0.5, (0.25, 0.5)), (22.75, 0.5, (22.75, -0.5))])
def test_kaixhins_ball_bounces_off_both_sides(column, slope, after):
    env = Catch("kaixhin")
    env.reset(seed=0)
    env.set_state({**env.get_state(), "ball": (5, column, slope)})
    env.step(0)
    assert env.get_state()["ball"] == [6, *after]


@pytest.mark.parametrize(("column", "cell"), [(10.4, 10), (10.6, 11), (12.4, 12), (12.6, 13)])
def test_kaixhins_ball_is_drawn_and_caught_in_the_nearest_column(column, cell):
    env = Catch("kaixhin", render_mode="rgb_array")
    env.reset(seed=0)
    env.set_state({**env.get_state(), "ball": (21, column, 0.0)})
    assert cells(env.step(0)[0])[0] == (22, cell)
    assert tuple(env.render()[22 * 16, cell * 16]) == (255, 255, 255)
    assert env.step(0)[1] == (1.0 if cell in (11, 12) else 0.0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_seed_fixes_all_games_that_follow(variant):
    def play(seed):
        env = Catch(variant)
        observations = [env.reset(seed=seed)[0]]
        for _ in range(5):
            ended = False
            while not ended:
                observation, _, ended, _, _ = env.step(0)
                observations.append(observation)
            observations.append(env.reset()[0])
        return np.stack(observations)

    np.testing.assert_array_equal(play(5), play(5))
    assert not np.array_equal(play(5), play(6))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_state_set_in_a_new_environment_goes_on_alike(variant):
    env, other = Catch(variant), Catch(variant)
    env.reset(seed=8)
    env.step(2)
    other.set_state(env.get_state())
    for _ in range(60):
        one, two = env.step(1), other.step(1)
        np.testing.assert_array_equal(one[0], two[0])
        assert one[1:] == two[1:]
        if one[2]:
            np.testing.assert_array_equal(env.reset()[0], other.reset()[0])


def test_a_state_of_another_variant_is_refused():
    env = Catch("kaixhin")
    env.reset(seed=0)
    text = "must be of variant 'bsuite'. Received: variant='kaixhin'"
    with pytest.raises(ValueError, match=text):
        Catch().set_state(env.get_state())


def test_a_state_that_lacks_something_is_refused():
    with pytest.raises(ValueError, match="what `get_state` returned for Catch. Received: no ball, paddle, ended, gen"):
        Catch().set_state({"variant": "bsuite"})


def test_each_observation_is_a_new_array_of_zeros_and_ones():
    env = Catch()
    first, _ = env.reset(seed=0)
    kept = first.copy()
    second = env.step(1)[0]
    assert first.dtype == np.float32
    assert set(np.unique(first)) == {0.0, 1.0}
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, kept)


def test_actions_have_names():
    assert Catch().get_action_meanings() == ["left", "stay", "right"]
    assert Catch("kaixhin").get_action_meanings() == ["stay", "left", "right"]


def test_the_picture_shows_ball_and_paddle_in_their_cells():
    env = start_with_ball_in(3, render_mode="rgb_array")
    picture = env.render()
    assert (picture.shape, picture.dtype) == ((160, 80, 3), np.uint8)
    lit = {tuple(cell // 16) for cell in np.argwhere(picture.any(axis=-1))}
    assert lit == {(0, 3), (9, 2)}
    assert tuple(picture[8, 3 * 16 + 8]) == (255, 255, 255)


@pytest.mark.parametrize(("action", "text"), [(3, "action=3"), (-1, "action=-1")])
def test_an_action_out_of_range_is_refused(action, text):
    env = Catch()
    env.reset(seed=0)
    with pytest.raises(ValueError, match=f"action must be from 0 to 2. Received: {text}"):
        env.step(action)


def test_an_action_that_is_no_integer_is_refused():
    env = Catch()
    env.reset(seed=0)
    with pytest.raises(TypeError, match="action must be an integer. Received: action=1.0"):
        env.step(1.0)


def test_a_step_without_a_falling_ball_is_refused():
    env = Catch()
    text = r"No ball is falling: call reset\(\) first. Received: action=1"
    with pytest.raises(ValueError, match=text):
        env.step(1)
    env.reset(seed=0)
    for _ in range(9):
        env.step(1)
    with pytest.raises(ValueError, match=text):
        env.step(1)


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"variant": "huge"}, "variant must be one of bsuite, kaixhin. Received: variant='huge'"),
        ({"render_mode": "human"}, "None or 'rgb_array'. Received: render_mode='human'"),
    ],
)
def test_an_argument_that_does_not_exist_is_refused(kwargs, text):
    with pytest.raises(ValueError, match=text):
        Catch(**kwargs)


def test_render_without_its_mode_is_refused():
    env = Catch()
    env.reset(seed=0)
    with pytest.raises(ValueError, match="render_mode='rgb_array'. Received: render_mode=None"):
        env.render()
