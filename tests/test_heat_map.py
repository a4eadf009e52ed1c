"""Maps for the eye: each on its own scale, and each pixel of a state over the rectangle that it was made from."""

import numpy as np
import pytest

from dqn_lab.films.heat_map import brightness, heated


def test_the_strongest_channel_of_either_sign_counts_on_the_maps_own_scale():
    signals = np.zeros((2, 2, 2, 3))
    signals[0, 0, 0] = [1, -4, 2]
    signals[0, 1, 1] = [2, 0, 0]
    signals[1, 0, 1] = [0, 0, 1e-9]
    maps = brightness(signals)
    assert maps.dtype == np.float32
    assert maps[0] == pytest.approx(np.array([[1, 0], [0, 0.5]]), abs=0.02)
    assert maps[1] == pytest.approx(np.array([[0, 1], [0, 0]]), abs=0.02)


def test_a_single_pixel_does_not_darken_the_others():
    signals = np.ones((1, 20, 20, 1))
    signals[0, 3, 4] = 1e6
    assert (brightness(signals) == 1).all()


@pytest.mark.parametrize("brightest", [0.0, 0.3, 5.0])
def test_no_signal_is_a_dark_map_and_one_pixel_alone_a_bright_one(brightest):
    signals = np.zeros((1, 20, 20, 1))
    signals[0, 3, 4] = brightest
    assert brightness(signals).max() == (brightest > 0)
    assert brightness(signals).sum() == (brightest > 0)


def test_a_states_pixel_lies_over_its_rectangle():
    picture = np.full((40, 20, 3), (200, 100, 50), np.uint8)
    saliency = np.zeros((10, 5), np.float32)
    saliency[2, 3] = 1
    drawn = heated(picture, saliency)
    assert (drawn.shape, drawn.dtype) == (picture.shape, np.uint8)
    plain = heated(picture, None)
    hot = (drawn != plain).any(axis=2)
    assert np.argwhere(hot).tolist() == [[row, column] for row in range(8, 12) for column in range(12, 16)]
    assert (np.ptp(plain, axis=2) == 0).all()  # grey
    assert 0 < plain.max() < 100
    assert drawn[9, 13, 0] > drawn[9, 13, 2] + 50  # yellow


def test_an_emulators_screen_is_covered_from_edge_to_edge():
    picture, saliency = np.zeros((210, 160, 3), np.uint8), np.zeros((84, 84), np.float32)
    saliency[0, 0] = saliency[-1, -1] = 1
    lit = heated(picture, saliency).any(axis=2)
    assert lit[0, 0]
    assert lit[-1, -1]
    assert lit.sum() <= 2 * 4 * 3
