"""What is drawn around a picture: the picture itself untouched, bars by value, the action taken marked."""

import numpy as np
import pytest

from dqn_lab.films.moments import Decision, Moment
from dqn_lab.films.overlay import Overlay, enlarged, plain

BLUE, ORANGE, VERMILION = (86, 180, 233), (230, 159, 0), (235, 110, 40)


def picture_of(height=210, width=160):
    return np.random.default_rng(0).integers(256, size=(height, width, 3), dtype=np.uint8)


def moment_of(decision, picture=None, score=12.0, step=3):
    return Moment(picture_of() if picture is None else picture, 0, step, score, decision)


def overlay_of(num_actions=3, zoom=2, epsilon=0.1, label="", is_actor_critic=False):
    return Overlay(tuple(f"A{n}" for n in range(num_actions)), epsilon, zoom, label, is_actor_critic)


def widths(drawn, colour):
    """Of each bar of this colour, its pixels; the line at 0 hides one of them."""
    counts = (drawn[:, -180:-60] == colour).all(axis=2).sum(axis=1)
    edges = np.flatnonzero(np.diff(np.r_[0, counts > 10, 0]))
    return [int(counts[begin:end].max()) for begin, end in edges.reshape(-1, 2)]


def test_the_picture_is_enlarged_and_else_as_it_is():
    picture = picture_of()
    drawn = overlay_of().draw(moment_of(Decision(np.array([1.0, 2.0, 3.0]), None, 2, False), picture))
    assert np.array_equal(drawn[:420:2, :320:2], picture)
    assert np.array_equal(drawn[1:420:2, 1:320:2], picture)
    assert drawn.shape == (420, 624, 3)


@pytest.mark.parametrize(("shape", "zoom"), [((210, 160), 2), ((160, 80), 3), ((400, 600), 1), ((384, 384), 2)])
def test_without_a_zoom_a_picture_becomes_four_hundred_pixels_high(shape, zoom):
    assert enlarged(picture_of(*shape), None).shape == (shape[0] * zoom, shape[1] * zoom, 3)
    assert enlarged(picture_of(*shape), 5).shape == (shape[0] * 5, shape[1] * 5, 3)


def test_bars_are_as_long_as_their_values_and_the_action_taken_has_its_own_colour():
    draw = overlay_of().draw
    drawn = draw(moment_of(Decision(np.array([1.0, 2.0, 4.0]), None, 1, False)))[:, 320:]
    assert widths(drawn, BLUE) == [26, 102]
    assert widths(drawn, ORANGE) == [51]
    drawn = draw(moment_of(Decision(np.array([1.0, 2.0, -4.0]), None, 1, True)))[:, 320:]
    assert widths(drawn, VERMILION) == [25]  # the scale is now from -4 to 4
    assert widths(drawn, ORANGE) == []
    assert sorted(widths(drawn, BLUE)) == [13, 51]


def test_a_random_action_is_told_in_words_too():
    def head(is_random):
        drawn = overlay_of().draw(moment_of(Decision(np.ones(3), None, 1, is_random)))
        return drawn[:110, 320:]

    def has(picture, colour):
        return bool((np.abs(picture.astype(int) - colour).sum(axis=2) < 40).any())

    assert has(head(True), VERMILION)
    assert not has(head(False), VERMILION)


@pytest.mark.parametrize("change", [{"score": 13.0}, {"step": 4}])
def test_score_and_step_are_written(change):
    decision = Decision(np.ones(3), None, 1, False)
    one, other = (overlay_of().draw(moment_of(decision, **each))[:110, 320:] for each in ({}, change))
    assert not np.array_equal(one, other)


def test_epsilon_the_snapshot_and_a_state_value_are_written():
    def drawn(value=None, **settings):
        decision = Decision(np.array([0.2, 0.3, 0.5]), value, 1, False)
        return overlay_of(**settings).draw(moment_of(decision))

    told = [
        drawn(),
        drawn(epsilon=0.2),
        drawn(label="1,000 steps"),
        drawn(value=1.0, is_actor_critic=True),
        drawn(value=2.0, is_actor_critic=True),
    ]
    assert len({each.tobytes() for each in told}) == 5


def test_probabilities_have_a_scale_from_nothing_to_one():
    decision = Decision(np.array([0.25, 0.25, 0.5]), 0.0, 2, False)
    drawn = overlay_of(is_actor_critic=True).draw(moment_of(decision))[:, 320:]
    assert widths(drawn, ORANGE) == [51]


def test_before_the_first_decision_there_are_names_and_no_bars():
    drawn = overlay_of().draw(moment_of(None))[:, 320:]
    assert widths(drawn, BLUE) == widths(drawn, ORANGE) == []


def test_eighteen_actions_beside_a_picture_that_is_not_enlarged_have_a_row_each():
    decision = Decision(np.linspace(1, 2, 18), None, 0, False)
    drawn = overlay_of(num_actions=18, zoom=1, label="9 steps").draw(moment_of(decision))
    assert len(widths(drawn[:, 160:], BLUE)) == 17
    assert drawn.shape[0] > 320


@pytest.mark.parametrize("shape", [(211, 161), (210, 160), (33, 20)])
def test_sides_are_even(shape):
    picture = picture_of(*shape)
    drawn = [
        plain(picture, 1),
        plain(picture, 3, "5 steps"),
        overlay_of(zoom=1).draw(moment_of(None, picture)),
        overlay_of(zoom=3, num_actions=2).draw(moment_of(None, picture)),
    ]
    assert all(side % 2 == 0 for each in drawn for side in each.shape[:2])


def test_a_caption_stands_under_the_picture():
    picture = picture_of()
    assert np.array_equal(plain(picture, 2), enlarged(picture, 2))
    told = plain(picture, 2, "1,000 steps")
    assert told.shape == (448, 320, 3)
    assert np.array_equal(told[:420], enlarged(picture, 2))
    assert not np.array_equal(told, plain(picture, 2, "2,000 steps"))
