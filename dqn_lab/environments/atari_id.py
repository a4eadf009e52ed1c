"""The names an Atari game goes by, and the rules that a registered id brings with it."""

import dataclasses
import difflib
from typing import Any

import gymnasium


def import_ale() -> Any:
    """Returns the module ale_py, its registered ids known to gymnasium.

    Raises:
        ImportError: if ale-py isn't installed; one line says what to install.
    """
    try:
        import ale_py
    except ImportError as error:
        raise ImportError("Atari games need the package ale-py: pip install ale-py") from error
    gymnasium.register_envs(ale_py)
    return ale_py


@dataclasses.dataclass(frozen=True)
class AtariId:
    """A game's ROM with the rules its name brings; a ROM's own name brings none (None).

    The frame skip and the frame cap are never taken from an id: `Atari` counts raw frames of the
    bare emulator, so an id that skips inside (Breakout-v0, ALE/Breakout-v5) can't skip twice.

    Args:
        name: the name as it was given.
        rom: the ROM's name, e.g. "breakout".
        repeat_action_probability: the id's sticky probability, or None.
        full_action_space: True for all 18 actions, False for the game's own, or None.
    """

    name: str
    rom: str
    repeat_action_probability: float | None = None
    full_action_space: bool | None = None

    def check_against(self, protocol: Any) -> None:
        """Refuses a protocol that contradicts the id.

        Args:
            protocol: anything with `repeat_action_probability` and `full_action_space`.

        Raises:
            ValueError: with the id's value and the protocol's.
        """
        for setting in ("repeat_action_probability", "full_action_space"):
            self.settle(setting, getattr(protocol, setting), f"the protocol {protocol}")

    def settle(self, setting: str, given: Any, giver: str) -> Any:
        """Returns the id's value of a setting or, where the id brings none, the given one.

        Args:
            setting: "repeat_action_probability" or "full_action_space".
            given: the value asked for; None = whatever the id brings.
            giver: who asks for it, named in the error.

        Raises:
            ValueError: if both have a value and they differ.
        """
        brought = getattr(self, setting)
        if brought is None or given is None:
            return given if brought is None else brought
        if brought != given:
            raise ValueError(
                f"The id {self.name} has {setting}={brought}, but {giver} has {given}: give both "
                f"the same, or the ROM's name {self.rom!r}, which brings no rules. "
                f"Received: game={self.name!r}"
            )
        return brought


def _registered_ids() -> dict[str, AtariId]:
    return {
        name: AtariId(
            name,
            spec.kwargs["game"],
            # What ale-py's own environment takes where an id leaves it open.
            spec.kwargs.get("repeat_action_probability", 0.25),
            spec.kwargs.get("full_action_space", False),
        )
        for name, spec in gymnasium.registry.items()
        if spec.entry_point == "ale_py.env:AtariEnv"
    }


def resolve_game(game: str) -> AtariId:
    """Returns what a game's name stands for.

    Args:
        game: a ROM's name ("breakout", "ms_pacman") or a registered id ("Breakout-v0",
            "BreakoutNoFrameskip-v4", "ALE/Breakout-v5").

    Raises:
        ImportError: if ale-py isn't installed.
        TypeError: if `game` is no string.
        ValueError: if there is no such Atari game; the closest name is given.
    """
    if not isinstance(game, str):
        raise TypeError(f"game must be a string. Received: game={game!r}")
    import_ale()
    registered = _registered_ids()
    if game in registered:
        return registered[game]
    # From the ids, not the ROM files: four ROMs (combat, ...) can't be played by one player.
    roms = {known.rom for known in registered.values()}
    if game in roms:
        return AtariId(game, game)
    raise ValueError(_unknown(game, [*sorted(roms), *registered]))


def _unknown(game: str, names: list[str]) -> str:
    by_lower_case = {name.lower(): name for name in reversed(names)}
    closest = difflib.get_close_matches(game.lower(), by_lower_case, n=1, cutoff=0.4)
    hint = f"; did you mean {by_lower_case[closest[0]]!r}?" if closest else "."
    return (
        "game must be a ROM's name such as 'breakout' or a registered Atari id such as "
        f"'ALE/Breakout-v5'{hint} Received: game={game!r}"
    )
