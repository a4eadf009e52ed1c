"""The named sets of environment and evaluation rules that a score is measured under."""

import dataclasses
import difflib
import math
from collections.abc import Callable
from typing import Any

from dqn_lab.arguments import require_choice, require_flag, require_fraction, require_integer
from dqn_lab.rewards import REWARD_TRANSFORMS

FrameSkip = int | tuple[int, int]


def _frame_skip(name: str, value: Any) -> FrameSkip:
    if not isinstance(value, (tuple, list)):
        return require_integer(name, value, least=1)
    if len(value) != 2:
        raise ValueError(f"`{name}` must be an integer or (low, high). Received: {name}={value!r}")
    low, high = (require_integer(name, bound, least=1) for bound in value)
    if low >= high:
        raise ValueError(
            f"`{name}`=(low, high) draws from low to high - 1, so low must be below high. Received: {name}={value!r}"
        )
    return low, high


def _max_frames(name: str, value: Any) -> int:
    if require_integer(name, value, least=1) > 2:
        raise ValueError(f"`{name}` must be 2, or 1 for no maximum. Received: {name}={value!r}")
    return int(value)


def _frame_cap(name: str, value: Any) -> int | float:
    return math.inf if value == math.inf else require_integer(name, value, least=1)


def _reward_transform(name: str, value: Any) -> str:
    return require_choice(name, value, REWARD_TRANSFORMS)


# Each setting with its check and the words that name it to people.
_SETTINGS: dict[str, tuple[Callable[[str, Any], Any], str]] = {
    "repeat_action_probability": (require_fraction, "sticky"),
    "frame_skip": (_frame_skip, "frame skip"),
    "max_frames": (_max_frames, "frames maximised over"),
    "noop_max": (lambda name, value: require_integer(name, value, least=0), "no-ops up to"),
    "terminal_on_life_loss": (require_flag, "life loss terminal"),
    "reward_transform": (_reward_transform, "reward"),
    "full_action_space": (require_flag, "full action set"),
    "frame_cap": (_frame_cap, "training cap in frames"),
    "evaluation_frame_cap": (_frame_cap, "evaluation cap in frames"),
    "final_epsilon": (require_fraction, "final epsilon"),
    "evaluation_epsilon": (require_fraction, "evaluation epsilon"),
}

# What only an emulator has; the rest a classic-control run may choose too.
_ATARI_ONLY = frozenset(_SETTINGS) - {"reward_transform", "final_epsilon", "evaluation_epsilon"}


def check_setting(name: str, value: Any) -> Any:
    """Returns a protocol setting in its plain form: int, float, bool, str or a pair of int.

    Args:
        name: a field of `Protocol`, its name apart.
        value: what was given for it; a list of two is taken as a pair.

    Raises:
        TypeError: if the value is of another type.
        ValueError: if it is out of range.
    """
    return _SETTINGS[name][0](name, value)


def _readable(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return "-".join(map(str, value))
    if value is None:
        return "none"
    if value == math.inf:
        return "open"
    return f"{value:,}" if isinstance(value, int) else str(value)


@dataclasses.dataclass(frozen=True)
class Protocol:
    """One frozen set of rules; `override` gives a copy that knows in what it deviates.

    A field that is None has no meaning in the protocol (classic control has no sticky actions)
    or is left to the rundef (its final epsilon).

    Args:
        name: what scores are labelled with.
        repeat_action_probability: chance that the emulator repeats the last action, per frame.
        frame_skip: frames per step, or (low, high): low to high - 1 drawn anew at each step.
        max_frames: 2: a picture is the maximum of the last two raw frames; 1: the last frame.
        noop_max: a game starts with 1 to `noop_max` frames without action; 0: with none.
        terminal_on_life_loss: the learner doesn't bootstrap past a lost life; the game goes on.
        reward_transform: what the learner sees of a step's raw reward: "sign", "clip", "none".
        full_action_space: all 18 actions instead of the game's minimal set.
        frame_cap: frames after which a training game is truncated; math.inf = open.
        evaluation_frame_cap: the same for evaluation games.
        final_epsilon: exploration at the end of training.
        evaluation_epsilon: exploration while evaluating.

    Raises:
        TypeError, ValueError: if a field is of the wrong type or out of range.
    """

    name: str
    repeat_action_probability: float | None
    frame_skip: FrameSkip
    max_frames: int | None
    noop_max: int | None
    terminal_on_life_loss: bool | None
    reward_transform: str
    full_action_space: bool
    frame_cap: int | float | None
    evaluation_frame_cap: int | float | None
    final_epsilon: float | None
    evaluation_epsilon: float

    def __post_init__(self):
        for setting in _SETTINGS:
            value = getattr(self, setting)
            if value is not None:
                object.__setattr__(self, setting, check_setting(setting, value))

    def override(self, **given: Any) -> "Protocol":
        """Returns this protocol with the given settings; None means the protocol's own value.

        Raises:
            TypeError: if a setting doesn't exist or has the wrong type.
            ValueError: if a value is out of range, or the setting belongs to Atari only and
                this protocol isn't one for Atari.
        """
        for setting in given:
            _check_known(setting)
        given = {setting: value for setting, value in given.items() if value is not None}
        changed = dataclasses.replace(self, **given)
        for setting in _ATARI_ONLY & set(given):
            if not self.is_atari and setting in changed.deviations:
                raise ValueError(
                    f"{setting} is a setting of Atari games; protocol {self.name} has none. "
                    f"Received: {setting}={given[setting]!r}"
                )
        return changed

    @property
    def is_atari(self) -> bool:
        """Whether its games are an emulator's."""
        return self.repeat_action_probability is not None

    @property
    def deviations(self) -> dict[str, Any]:
        """The settings in which this differs from the protocol of its name, with their values."""
        original = PROTOCOLS.get(self.name, self)
        values = {setting: getattr(self, setting) for setting in _SETTINGS}
        return {s: value for s, value in values.items() if value != getattr(original, s)}

    def to_config(self) -> dict[str, Any]:
        """Returns all settings and the deviations in JSON's types: pairs as lists, inf as text."""
        config = {s: _plain(getattr(self, s)) for s in _SETTINGS}
        deviations = {s: _plain(value) for s, value in self.deviations.items()}
        return {"name": self.name, **config, "deviations": deviations}

    def __str__(self) -> str:
        words = [f"{_SETTINGS[s][1]} {_readable(value)}" for s, value in self.deviations.items()]
        return f"{self.name} ({', '.join(words)})" if words else self.name


def _check_known(setting: str) -> None:
    if setting in _SETTINGS:
        return
    closest = difflib.get_close_matches(setting, _SETTINGS, n=1)
    hint = f"; did you mean {closest[0]!r}?" if closest else "."
    raise TypeError(f"A protocol has the settings {', '.join(_SETTINGS)}{hint} Received: setting={setting!r}")


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return "inf" if value == math.inf else value


# Mnih et al. (2015), Methods and Extended Data Table 1; 18,000 frames = 5 minutes a game.
NATURE_2015 = Protocol(
    name="nature-2015",
    repeat_action_probability=0.0,
    frame_skip=4,
    max_frames=2,
    noop_max=30,
    terminal_on_life_loss=True,
    reward_transform="clip",
    full_action_space=False,
    frame_cap=108_000,  # frames = 30 minutes x 60 s x 60 frames
    evaluation_frame_cap=18_000,  # frames = 5 minutes x 60 s x 60 frames
    final_epsilon=0.1,
    evaluation_epsilon=0.05,
)

# Castro et al. (2018), the settings of Dopamine's published learning curves.
DOPAMINE = Protocol(
    name="dopamine",
    repeat_action_probability=0.25,
    frame_skip=4,
    max_frames=2,
    noop_max=0,
    terminal_on_life_loss=False,
    reward_transform="clip",
    full_action_space=False,
    frame_cap=108_000,
    evaluation_frame_cap=108_000,
    final_epsilon=0.01,
    evaluation_epsilon=0.001,
)

# The environment id Breakout-v0, but for its frame skip: 4 instead of 2 to 4 drawn at random.
BREAKOUT_V0 = Protocol(
    name="breakout-v0",
    repeat_action_probability=0.25,
    frame_skip=4,
    max_frames=2,
    noop_max=0,
    terminal_on_life_loss=False,
    reward_transform="sign",
    full_action_space=False,
    frame_cap=108_000,
    evaluation_frame_cap=108_000,
    final_epsilon=0.1,
    evaluation_epsilon=0.05,
)

# A game's length is the registered environment's own time limit, which truncates.
CLASSIC_CONTROL = Protocol(
    name="classic-control",
    repeat_action_probability=None,
    frame_skip=1,
    max_frames=None,
    noop_max=None,
    terminal_on_life_loss=None,
    reward_transform="none",
    full_action_space=True,
    frame_cap=None,
    evaluation_frame_cap=None,
    final_epsilon=None,
    evaluation_epsilon=0.0,
)

PROTOCOLS = {p.name: p for p in (NATURE_2015, DOPAMINE, BREAKOUT_V0, CLASSIC_CONTROL)}


def get_protocol(name: str) -> Protocol:
    """Returns the protocol of that name: nature-2015, dopamine, breakout-v0, classic-control.

    Raises:
        ValueError: if there is no such protocol; the closest name is given.
    """
    if name in PROTOCOLS:
        return PROTOCOLS[name]
    closest = difflib.get_close_matches(str(name), PROTOCOLS, n=1, cutoff=0.4)
    hint = f"; did you mean {closest[0]!r}?" if closest else "."
    raise ValueError(f"protocol must be one of {', '.join(PROTOCOLS)}{hint} Received: protocol={name!r}")


def protocol_from_config(config: object) -> Protocol | None:
    """Returns the protocol of which `to_config` gave this, also as JSON keeps it; None where it gave none."""
    if not isinstance(config, dict) or config.get("name") not in PROTOCOLS or "deviations" not in config:
        return None
    deviations = {setting: _restored(value) for setting, value in config["deviations"].items()}
    return dataclasses.replace(PROTOCOLS[config["name"]], **deviations)


def _restored(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else math.inf if value == "inf" else value
