import numpy as np
import pytest

from dqn_lab.rewards import REWARD_TRANSFORMS, transform_reward


@pytest.mark.case("B059")
@pytest.mark.parametrize(
    ("name", "seen"),
    [("sign", [1, -1, 1, 0]), ("clip", [0.5, -0.3, 1, 0]), ("none", [0.5, -0.3, 7, 0])],
)
def test_sign_clip_and_none_are_three_different_rules(name, seen):
    reward = np.array([0.5, -0.3, 7, 0])
    np.testing.assert_array_equal(transform_reward(reward, name), np.float32(seen))
    np.testing.assert_array_equal(reward, [0.5, -0.3, 7, 0])


def test_clip_bounds_below_too():
    np.testing.assert_array_equal(transform_reward(np.array([-200.0, -1.0]), "clip"), [-1, -1])


@pytest.mark.parametrize("name", REWARD_TRANSFORMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_the_result_is_a_new_float32_array_of_the_same_shape(name, dtype):
    reward = np.ones((2, 3), dtype)
    seen = transform_reward(reward, name)
    assert seen.dtype == np.float32
    assert seen.shape == (2, 3)
    assert not np.shares_memory(seen, reward)


def test_an_unknown_transform_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="one of sign, clip, none. Received: name='tanh'"):
        transform_reward(np.zeros(2), "tanh")
