import sys
from types import SimpleNamespace

import gymnasium
import pytest

from dqn_lab.environments.atari_id import AtariId, import_ale, resolve_game
from dqn_lab.protocols import get_protocol


def test_a_roms_name_brings_no_rules():
    assert resolve_game("breakout") == AtariId("breakout", "breakout", None, None)


@pytest.mark.case("B057")
@pytest.mark.parametrize(
    ("name", "sticky"),
    [
        ("Breakout-v0", 0.25),
        ("Breakout-v4", 0.0),
        ("BreakoutNoFrameskip-v0", 0.25),
        ("BreakoutNoFrameskip-v4", 0.0),
        ("ALE/Breakout-v5", 0.25),
    ],
)
def test_an_id_brings_its_sticky_probability_and_action_set(name, sticky):
    assert resolve_game(name) == AtariId(name, "breakout", sticky, False)


def test_names_of_several_words_resolve_to_their_rom():
    assert resolve_game("MsPacmanNoFrameskip-v4").rom == "ms_pacman"
    assert resolve_game("ALE/SpaceInvaders-v5").rom == "space_invaders"


@pytest.mark.case("B057")
@pytest.mark.parametrize(
    ("name", "fitting", "contradicting"),
    [
        ("Breakout-v0", "breakout-v0", "nature-2015"),
        ("BreakoutNoFrameskip-v4", "nature-2015", "dopamine"),
        ("ALE/Breakout-v5", "dopamine", "nature-2015"),
    ],
)
def test_an_id_fits_one_protocol_and_refuses_another_with_both_values(name, fitting, contradicting):
    game = resolve_game(name)
    game.check_against(get_protocol(fitting))
    protocol = get_protocol(contradicting)
    own, other = game.repeat_action_probability, protocol.repeat_action_probability
    text = (
        f"The id {name} has repeat_action_probability={own}, but the protocol {contradicting} "
        f"has {other}.*'breakout'.*Received: game='{name}'"
    )
    with pytest.raises(ValueError, match=text):
        game.check_against(protocol)


def test_an_id_refuses_another_action_set_and_names_the_deviation():
    protocol = get_protocol("dopamine").override(full_action_space=True)
    text = r"full_action_space=False, but the protocol dopamine \(full action set yes\) has True"
    with pytest.raises(ValueError, match=text):
        resolve_game("ALE/Breakout-v5").check_against(protocol)


def test_a_roms_name_fits_every_protocol():
    game = resolve_game("breakout")
    for name in ("nature-2015", "dopamine", "breakout-v0"):
        assert game.check_against(get_protocol(name)) is None


def test_settle_takes_the_ids_value_and_then_the_given_one():
    bound, free = resolve_game("ALE/Pong-v5"), resolve_game("pong")
    assert bound.settle("repeat_action_probability", None, "x") == 0.25
    assert bound.settle("repeat_action_probability", 0.25, "x") == 0.25
    assert free.settle("repeat_action_probability", 0.5, "x") == 0.5
    assert free.settle("repeat_action_probability", None, "x") is None
    with pytest.raises(ValueError, match="=0.25, but the caller has 0.0"):
        bound.settle("repeat_action_probability", 0.0, "the caller")


@pytest.mark.parametrize(
    ("game", "closest"),
    [
        ("breakot", "breakout"),
        ("Breakout", "breakout"),
        ("BREAKOUT", "breakout"),
        ("mspacman", "ms_pacman"),
        ("ALE/Brakout-v5", "ALE/Breakout-v5"),
        ("BreakoutDeterministic-v4", "Breakout-v4"),
    ],
)
def test_an_unknown_game_is_refused_with_the_closest_name(game, closest):
    with pytest.raises(ValueError, match=f"did you mean '{closest}'. Received: game='{game}'"):
        resolve_game(game)


@pytest.mark.parametrize("game", ["", "combat", "qqqqq"])
def test_what_one_player_cannot_play_is_unknown(game):
    with pytest.raises(ValueError, match=f"game must be a ROM's name .* Received: game='{game}'"):
        resolve_game(game)


def test_another_registered_environment_is_no_atari_game():
    assert "CartPole-v1" in gymnasium.registry
    with pytest.raises(ValueError, match="registered Atari id .* Received: game='CartPole-v1'"):
        resolve_game("CartPole-v1")


def test_a_game_that_is_no_string_is_refused():
    with pytest.raises(TypeError, match="game must be a string. Received: game=7"):
        resolve_game(7)


def test_an_id_registered_by_a_user_takes_ale_pys_defaults_for_what_it_leaves_open(monkeypatch):
    spec = SimpleNamespace(entry_point="ale_py.env:AtariEnv", kwargs={"game": "pong"})
    monkeypatch.setitem(gymnasium.registry, "Mine/Pong-v0", spec)
    assert resolve_game("Mine/Pong-v0") == AtariId("Mine/Pong-v0", "pong", 0.25, False)


def test_a_missing_ale_py_is_one_line_that_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    for call in (import_ale, lambda: resolve_game("breakout")):
        with pytest.raises(ImportError) as raised:
            call()
        assert str(raised.value) == "Atari games need the package ale-py: pip install ale-py"
