import dataclasses
import json
import math

import pytest

from dqn_lab.protocols import PROTOCOLS, check_setting, get_protocol

FIELDS = (
    "repeat_action_probability",
    "frame_skip",
    "max_frames",
    "noop_max",
    "terminal_on_life_loss",
    "reward_transform",
    "full_action_space",
    "frame_cap",
    "evaluation_frame_cap",
    "final_epsilon",
    "evaluation_epsilon",
)
TABLE = {
    "nature-2015": (0.0, 4, 2, 30, True, "clip", False, 108_000, 18_000, 0.1, 0.05),
    "dopamine": (0.25, 4, 2, 0, False, "clip", False, 108_000, 108_000, 0.01, 0.001),
    "breakout-v0": (0.25, 4, 2, 0, False, "sign", False, 108_000, 108_000, 0.1, 0.05),
    "classic-control": (None, 1, None, None, None, "none", True, None, None, None, 0.0),
}


@pytest.mark.parametrize("name", TABLE)
def test_each_protocol_has_exactly_the_published_values(name):
    protocol = get_protocol(name)
    assert tuple(getattr(protocol, field) for field in FIELDS) == TABLE[name]
    assert protocol.name == str(protocol) == name
    assert protocol.deviations == {}


def test_there_are_no_other_protocols():
    assert set(PROTOCOLS) == set(TABLE)


@pytest.mark.case("B057")
@pytest.mark.parametrize("name", ["nature-2015", "dopamine", "breakout-v0"])
def test_a_protocols_config_lists_every_rule_a_score_depends_on(name):
    config = json.loads(json.dumps(get_protocol(name).to_config(), allow_nan=False))
    assert {field: config[field] for field in FIELDS} == dict(zip(FIELDS, TABLE[name], strict=True))
    assert (config["name"], config["deviations"]) == (name, {})


def test_an_override_of_none_means_the_protocols_own_value():
    protocol = get_protocol("nature-2015")
    assert protocol.override(final_epsilon=None, frame_skip=None) == protocol
    assert protocol.override() == protocol


def test_an_override_changes_a_copy_and_remembers_what_deviates():
    protocol = get_protocol("nature-2015")
    changed = protocol.override(final_epsilon=0.02, noop_max=30)
    assert changed.final_epsilon == 0.02
    assert protocol.final_epsilon == 0.1
    assert changed.deviations == {"final_epsilon": 0.02}  # noop_max 30 is no deviation
    assert str(changed) == "nature-2015 (final epsilon 0.02)"
    assert changed.override(final_epsilon=0.1).deviations == {}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"frame_skip": (3, 5)}, "frame skip 3-5"),
        ({"repeat_action_probability": 0.0}, "sticky 0.0"),
        ({"max_frames": 1}, "frames maximised over 1"),
        ({"noop_max": 30}, "no-ops up to 30"),
        ({"terminal_on_life_loss": True}, "life loss terminal yes"),
        ({"reward_transform": "none"}, "reward none"),
        ({"full_action_space": True}, "full action set yes"),
        ({"frame_cap": 18_000}, "training cap in frames 18,000"),
        ({"evaluation_frame_cap": math.inf}, "evaluation cap in frames open"),
        ({"evaluation_epsilon": 0}, "evaluation epsilon 0.0"),
    ],
)
def test_a_deviation_is_shown_in_words_behind_the_name(given, words):
    changed = get_protocol("dopamine").override(**given)
    assert str(changed) == f"dopamine ({words})"


def test_several_deviations_are_all_shown():
    changed = get_protocol("breakout-v0").override(frame_skip=[3, 5], final_epsilon=0.01)
    assert str(changed) == "breakout-v0 (frame skip 3-5, final epsilon 0.01)"


def test_a_setting_that_is_left_to_others_is_shown_as_none():
    assert str(dataclasses.replace(get_protocol("dopamine"), final_epsilon=None)) == "dopamine (final epsilon none)"


def test_open_caps_and_skip_pairs_survive_json():
    changed = get_protocol("dopamine").override(frame_skip=(3, 5), frame_cap=math.inf)
    config = json.loads(json.dumps(changed.to_config(), allow_nan=False))
    assert (config["frame_skip"], config["frame_cap"]) == ([3, 5], "inf")
    assert config["deviations"] == {"frame_skip": [3, 5], "frame_cap": "inf"}


def test_a_protocol_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        get_protocol("dopamine").noop_max = 3


def test_a_protocol_of_ones_own_has_no_deviations():
    own = dataclasses.replace(get_protocol("dopamine"), name="mine", noop_max=7)
    assert str(own) == "mine"
    assert str(own.override(noop_max=8)) == "mine"


@pytest.mark.parametrize(("name", "closest"), [("natur-2015", "nature-2015"), ("Dopamine", "dopamine")])
def test_an_unknown_protocol_is_refused_with_the_closest_name(name, closest):
    with pytest.raises(ValueError, match=f"did you mean '{closest}'. Received: protocol='{name}'"):
        get_protocol(name)


def test_a_protocol_like_no_other_is_refused_with_all_names():
    with pytest.raises(ValueError, match=r"classic-control\. Received: protocol='xyz'"):
        get_protocol("xyz")


@pytest.mark.parametrize(
    ("setting", "hint"),
    [("noop_maxx", r"did you mean 'noop_max'\?"), ("name", r"\."), ("zzz", r"\.")],
)
def test_an_unknown_setting_is_a_type_error_even_when_none(setting, hint):
    for value in (None, 3):
        with pytest.raises(TypeError, match=f"{hint} Received: setting='{setting}'"):
            get_protocol("dopamine").override(**{setting: value})


@pytest.mark.case("B056")
@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("terminal_on_life_loss", True),
        ("repeat_action_probability", 0.25),
        ("frame_skip", 4),
        ("frame_cap", 1000),
        ("full_action_space", False),
    ],
)
def test_classic_control_refuses_atari_settings_by_name(setting, value):
    text = f"{setting} is a setting of Atari games; .* Received: {setting}={value}"
    with pytest.raises(ValueError, match=text):
        get_protocol("classic-control").override(**{setting: value})


def test_classic_control_takes_a_rundefs_epsilon_and_its_own_values():
    changed = get_protocol("classic-control").override(final_epsilon=0.02, frame_skip=1)
    assert str(changed) == "classic-control (final epsilon 0.02)"


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [
        ("repeat_action_probability", 1.5, "must lie within 0 and 1"),
        ("repeat_action_probability", math.nan, "must lie within 0 and 1"),
        ("final_epsilon", -0.1, "must lie within 0 and 1"),
        ("frame_skip", 0, "must be at least 1"),
        ("frame_skip", (5, 3), "low must be below high"),
        ("frame_skip", (4, 4), "low must be below high"),
        ("frame_skip", (1, 2, 3), r"must be an integer or \(low, high\)"),
        ("max_frames", 3, "must be 2, or 1 for no maximum"),
        ("max_frames", 0, "must be at least 1"),
        ("noop_max", -1, "must be at least 0"),
        ("frame_cap", 0, "must be at least 1"),
        ("reward_transform", "tanh", "must be one of sign, clip, none"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_rule(setting, value, text):
    with pytest.raises(ValueError, match=f"{setting}.*{text}.*Received: {setting}="):
        get_protocol("nature-2015").override(**{setting: value})


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [
        ("noop_max", 1.0, "must be an integer"),
        ("noop_max", True, "must be an integer"),
        ("frame_skip", "3-5", "must be an integer"),
        ("frame_cap", 1e5, "must be an integer"),
        ("terminal_on_life_loss", 1, "must be True or False"),
        ("final_epsilon", "0.1", "must be a number"),
        ("evaluation_epsilon", False, "must be a number"),
    ],
)
def test_a_value_of_another_type_is_refused_with_the_rule(setting, value, text):
    with pytest.raises(TypeError, match=f"`{setting}` {text}. Received: {setting}="):
        check_setting(setting, value)
