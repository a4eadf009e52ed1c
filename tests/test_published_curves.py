"""Published curves: their points, their names, and that they are whole."""

import pytest

from dqn_lab.reports.published_curves import PROTOCOL, published_curve
from dqn_lab.scores import rom_name

GAMES = "asterix beam_rider breakout enduro freeway pong qbert seaquest space_invaders".split()


@pytest.mark.parametrize(
    ("game", "million", "mean", "low", "high"),
    [
        ("pong", 1, -20.191, -20.274, -20.083),
        ("pong", 200, 19.519, 19.209, 19.685),
        ("breakout", 3, 14.186, 13.334, 14.507),
        ("freeway", 50, 20.028, 0, 33.463),
        ("beam_rider", 15, 4208.7, 3532.179, 4871.839),
        ("space_invaders", 10, 689.635, 657.703, 721.485),
    ],
)
def test_a_point_is_the_published_one(game, million, mean, low, high):
    curve = published_curve(game)
    point = curve.frames.index(1_000_000 * million)
    assert (curve.mean[point], curve.low[point], curve.high[point]) == (mean, low, high)


@pytest.mark.parametrize("game", GAMES)
def test_every_curve_is_whole_and_in_order(game):
    curve = published_curve(game)
    assert len(curve.frames) == len(curve.mean) == len(curve.low) == len(curve.high) == 17
    assert list(curve.frames) == sorted(set(curve.frames))
    assert all(low <= mean <= high for low, mean, high in zip(curve.low, curve.mean, curve.high, strict=True))


@pytest.mark.parametrize("name", ["SpaceInvaders", "ALE/SpaceInvaders-v5", "SpaceInvadersNoFrameskip-v4"])
def test_a_curve_is_found_by_all_names_of_its_game(name):
    assert rom_name(name) == "space_invaders"
    assert published_curve(name) == published_curve("space_invaders")


def test_a_game_without_a_curve_has_none_and_no_game_is_refused():
    assert published_curve("alien") is None
    assert PROTOCOL == "dopamine"
    with pytest.raises(ValueError, match="did you mean 'pong'. Received: game='pomg'"):
        published_curve("pomg")
