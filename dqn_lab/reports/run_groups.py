"""Runs that differ in nothing but their seed, put together, and words for what sets them apart from others."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from dqn_lab.run_record import RunRecord
from dqn_lab.rundef_keys import CHANGEABLE_KEYS
from dqn_lab.scores import rom_name

_NO_RUNDEF = "no rundef"
# Nothing that is learnt depends on these, or `RunGroup.protocol` tells it.
_UNNAMED = frozenset({"seed", "game"}) | (CHANGEABLE_KEYS - {"greedy", "total_steps", "total_updates"})


@dataclass(frozen=True, eq=False)
class RunGroup:
    """The runs of one configuration on one game.

    Args:
        game: the ROM's name of an Atari game; elsewhere the rundef's name.
        rundef: its name.
        keys: with their values as text, those in which the groups of this rundef that were made together differ.
        protocol: the label of its rules; "none".
        runs: in the order of their seeds.
    """

    game: str
    rundef: str
    keys: tuple[tuple[str, str], ...]
    protocol: str
    runs: tuple[RunRecord, ...]

    @property
    def configuration(self) -> str:
        """Rundef and keys: "cartpole_async method=a3c"."""
        return self.configuration_without(())

    def configuration_without(self, names: Collection[str]) -> str:
        """As `configuration`, without the keys of these names."""
        return " ".join([self.rundef, *(f"{key}={value}" for key, value in self.keys if key not in names)])


def group_runs(runs: Iterable[RunRecord]) -> list[RunGroup]:
    """Groups runs by game, rundef, keys and protocol, ordered by game and configuration."""
    found = defaultdict(list)
    for run in runs:
        found[_game(run), run.rundef or _NO_RUNDEF, _keys(run), str(run.protocol or "none")].append(run)
    groups = [
        RunGroup(game, rundef, _differing(rundef, keys, found), protocol, tuple(sorted(members, key=_seed)))
        for (game, rundef, keys, protocol), members in found.items()
    ]
    return sorted(groups, key=lambda group: (group.game, group.configuration, group.protocol))


def _game(run: RunRecord) -> str:
    if run.game is None:
        return run.rundef or _NO_RUNDEF
    with contextlib.suppress(ImportError, TypeError, ValueError):  # of a later version, or without the emulator
        return rom_name(run.game)
    return run.game


def _seed(run: RunRecord) -> tuple[bool, int, str]:
    return run.seed is None, run.seed or 0, str(run.directory)


def _keys(run: RunRecord) -> tuple[tuple[str, str], ...]:
    """What its rundef was given, as text. None is as good as no such key, which runs of an older version may lack."""
    named = {key: value for key, value in run.arguments.items() if key not in _UNNAMED and value is not None}
    return tuple(sorted((key, value if isinstance(value, str) else json.dumps(value)) for key, value in named.items()))


def _differing(rundef: str, keys: Iterable[tuple[str, str]], found: Iterable[tuple]) -> tuple[tuple[str, str], ...]:
    """Those keys that not all groups of a rundef have the same value of."""
    others = [set(other) for _, name, other, _ in found if name == rundef]
    return tuple(key for key in keys if any(key not in other for other in others))
