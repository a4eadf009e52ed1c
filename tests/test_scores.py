"""Published scores: whose they are, by which names they are found, and scores measured by them, worked by hand."""

import pytest

from dqn_lab import scores
from dqn_lab.scores import PublishedScores, human_normalized, published_scores


@pytest.mark.parametrize(
    ("game", "score", "table", "share"),
    [
        ("pong", 18.0, "dqn_zoo", 38.7 / 35.3),  # random -20.7, human 14.6
        ("pong", 18.0, "nature_2015", 38.7 / 30.0),  # human 9.3
        ("pong", -20.7, "dqn_zoo", 0.0),
        ("breakout", 401.2, "dqn_zoo", 399.5 / 28.8),  # 1.7 and 30.5
        ("breakout", 401.2, "nature_2015", 399.5 / 30.1),  # 31.8: the paper's 1327%
        ("double_dunk", -18.1, "nature_2015", 0.5 / 3.1),  # -18.6 and -15.5: the paper's 17%, rounded
        ("double_dunk", -20.8, "dqn_zoo", -2.2 / 2.2),  # -16.4
        ("solaris", 1236.3, "nature_2015", None),
        ("tetris", 5.0, "dqn_zoo", None),
    ],
)
def test_a_score_is_measured_from_the_random_policys_to_a_persons(game, score, table, share):
    assert human_normalized(game, score, table) == (None if share is None else pytest.approx(share))


def test_the_share_is_by_the_distance_where_a_person_is_worse_than_chance(monkeypatch):
    monkeypatch.setitem(scores._SCORES, "pong", (10.0, 6.0, None))
    assert human_normalized("pong", 12.0) == 0.5


@pytest.mark.parametrize(
    "name", ["ms_pacman", "MsPacman", "MS_PACMAN", "ALE/MsPacman-v5", "MsPacman-v0", "MsPacmanNoFrameskip-v4"]
)
def test_a_game_is_known_by_all_its_names(name):
    assert published_scores(name) == PublishedScores(random=307.3, human=6951.6)


def test_every_game_of_the_emulator_is_answered():
    import ale_py.roms

    roms = ale_py.roms.get_all_rom_ids()
    for table, count in (("dqn_zoo", 57), ("nature_2015", 49)):
        found = [published_scores(rom, table) for rom in roms]
        assert len([one for one in found if one is not None]) == count
        assert all(one is None or one.human != one.random for one in found)
    assert published_scores("TicTacToe3D") is None


def test_what_there_is_none_of_is_told():
    with pytest.raises(ValueError, match="did you mean 'pong'. Received: game='pomg'"):
        human_normalized("pomg", 1.0)
    with pytest.raises(TypeError, match="Received: game=3"):
        human_normalized(3, 1.0)
    with pytest.raises(ValueError, match="`table` must be one of dqn_zoo, nature_2015. Received: table='nature'"):
        human_normalized("pong", 1.0, "nature")
