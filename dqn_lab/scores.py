"""Published scores of the random policy and of people on Atari games, and scores measured by them."""

from __future__ import annotations

from dataclasses import dataclass

from dqn_lab.arguments import require_choice

# A table of human scores -> its name to people.
TABLES = {"dqn_zoo": "DQN Zoo", "nature_2015": "Nature 2015"}

# ROM -> random policy, human in DQN Zoo's table, human in Nature's (None: not among its 49 games). Games start with up
# to 30 no-ops. The random policy's scores are the same in both tables.
_SCORES: dict[str, tuple[float, float, float | None]] = {
    "alien": (227.8, 7127.7, 6875.4),
    "amidar": (5.8, 1719.5, 1675.8),
    "assault": (222.4, 742, 1496.4),
    "asterix": (210, 8503.3, 8503.3),
    "asteroids": (719.1, 47388.7, 13156.7),
    "atlantis": (12850, 29028.1, 29028.1),
    "bank_heist": (14.2, 753.1, 734.4),
    "battle_zone": (2360, 37187.5, 37800),
    "beam_rider": (363.9, 16926.5, 5774.7),
    "berzerk": (123.7, 2630.4, None),
    "bowling": (23.1, 160.7, 154.8),
    "boxing": (0.1, 12.1, 4.3),
    "breakout": (1.7, 30.5, 31.8),
    "centipede": (2090.9, 12017, 11963.2),
    "chopper_command": (811, 7387.8, 9881.8),
    "crazy_climber": (10780.5, 35829.4, 35410.5),
    "defender": (2874.5, 18688.9, None),
    "demon_attack": (152.1, 1971, 3401.3),
    "double_dunk": (-18.6, -16.4, -15.5),
    "enduro": (0, 860.5, 309.6),
    "fishing_derby": (-91.7, -38.7, 5.5),
    "freeway": (0, 29.6, 29.6),
    "frostbite": (65.2, 4334.7, 4334.7),
    "gopher": (257.6, 2412.5, 2321),
    "gravitar": (173, 3351.4, 2672),
    "hero": (1027, 30826.4, 25762.5),
    "ice_hockey": (-11.2, 0.9, 0.9),
    "jamesbond": (29, 302.8, 406.7),
    "kangaroo": (52, 3035, 3035),
    "krull": (1598, 2665.5, 2394.6),
    "kung_fu_master": (258.5, 22736.3, 22736.2),
    "montezuma_revenge": (0, 4753.3, 4366.7),
    "ms_pacman": (307.3, 6951.6, 15693.4),
    "name_this_game": (2292.3, 8049, 4076.2),
    "phoenix": (761.4, 7242.6, None),
    "pitfall": (-229.4, 6463.7, None),
    "pong": (-20.7, 14.6, 9.3),
    "private_eye": (24.9, 69571.3, 69571.3),
    "qbert": (163.9, 13455, 13455),
    "riverraid": (1338.5, 17118, 13513.3),
    "road_runner": (11.5, 7845, 7845),
    "robotank": (2.2, 11.9, 11.9),
    "seaquest": (68.4, 42054.7, 20181.8),
    "skiing": (-17098.1, -4336.9, None),
    "solaris": (1236.3, 12326.7, None),
    "space_invaders": (148, 1668.7, 1652.3),
    "star_gunner": (664, 10250, 10250),
    "surround": (-10, 6.5, None),
    "tennis": (-23.8, -8.3, -8.9),
    "time_pilot": (3568, 5229.2, 5925),
    "tutankham": (11.4, 167.6, 167.6),
    "up_n_down": (533.4, 11693.2, 9082),
    "venture": (0, 1187.5, 1187.5),
    "video_pinball": (16256.9, 17667.9, 17297.6),
    "wizard_of_wor": (563.5, 4756.5, 4756.5),
    "yars_revenge": (3092.9, 54576.9, None),
    "zaxxon": (32.5, 9173.3, 9173.3),
}


@dataclass(frozen=True)
class PublishedScores:
    """Scores that a game's are measured by.

    Args:
        random: mean return of the uniformly random policy.
        human: mean return of the person who tested the game.
    """

    random: float
    human: float


def published_scores(game: str, table: str = "dqn_zoo") -> PublishedScores | None:
    """Returns a game's scores in a published table, or None where it has none.

    Args:
        game: a ROM's name ("ms_pacman"), gymnasium's ("MsPacman") or an id of it ("ALE/MsPacman-v5").
        table: "dqn_zoo": those that DQN Zoo (google-deepmind/dqn_zoo), Dopamine and Rainbow go by, 57 games;
            "nature_2015": Mnih et al. (2015), Extended Data Table 2, 49 games. Their random scores are the same,
            their human ones are not: in Pong 14.6 and 9.3.

    Raises:
        ImportError: ale-py, which knows the other names, isn't installed.
        TypeError, ValueError: there is no such game or table.
    """
    require_choice("table", table, TABLES)
    random, dqn_zoo, nature = _SCORES.get(rom_name(game), (None, None, None))
    human = {"dqn_zoo": dqn_zoo, "nature_2015": nature}[table]
    return None if human is None else PublishedScores(random, human)


def human_normalized(game: str, score: float, table: str = "dqn_zoo") -> float | None:
    """Returns (score - random) / |human - random|: 0 is the random policy's score, 1 a person's; or None.

    Args:
        game, table: as `published_scores`.
        score: raw and undiscounted, such as the mean return of whole games.

    Raises:
        As `published_scores`.

    Example:

    >>> human_normalized("pong", 14.6), human_normalized("pong", 9.3, "nature_2015")
    (1.0, 1.0)
    """
    published = published_scores(game, table)
    if published is None:
        return None
    return (score - published.random) / abs(published.human - published.random)


def rom_name(game: str) -> str:
    """Returns the ROM's name of a game that is named by any of its names: "ms_pacman" of "ALE/MsPacman-v5".

    Raises:
        As `published_scores`.
    """
    if game in _SCORES:
        return game
    from dqn_lab.environments.atari_id import import_ale, resolve_game

    roms = import_ale().roms.get_all_rom_ids()  # those that only two can play have no id
    if game in roms:
        return game
    try:
        return resolve_game(game).rom
    except ValueError:
        for known in (str(game).lower(), f"ALE/{game}-v5"):
            try:
                return resolve_game(known).rom
            except ValueError:
                continue
        raise
