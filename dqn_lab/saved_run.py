"""A run loaded to play: its agent, its own front end and its arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dqn_lab.arguments import require_fraction, require_integer
from dqn_lab.assembly import playing_arguments
from dqn_lab.protocols import Protocol, get_protocol
from dqn_lab.run_record import read_config
from dqn_lab.rundef import Key, Rundef, SettingError, load_rundef
from dqn_lab.rundef_values import parse_value
from dqn_lab.snapshots import find_snapshot, load_snapshot

# Keys that change a protocol's settings; at none they have its own.
_DEVIATING_KEYS = frozenset(field.name for field in dataclasses.fields(Protocol)) - {"name"}


@dataclass(frozen=True)
class SavedRun:
    """A run's agent and the games it was evaluated in.

    Args:
        agent: as `dqn_lab.load_agent` returns it.
        sequence: the twin that the run's own sequence makes for evaluation. It plays the very games of the run's
            evaluations, or of another protocol's, by the agent's values and with their share of random actions.
        arguments: the run's, by its rundef's keys.
        protocol: the rules that it plays under; None where the rundef told none.
        steps: agent steps of the run when this agent was saved.
    """

    agent: object
    sequence: object
    arguments: dict[str, object]
    protocol: Protocol | None
    steps: int


class RunGames:
    """The games of a run, made by its rundef without its replay: what agents of it are played in.

    Args:
        run_directory, protocol, epsilon: as `load_run`.

    Attributes:
        arguments: the run's, by its rundef's keys.
        protocol: the rules that are played under; None where the rundef told none.
        epsilon: share of random actions.
        game: of Atari, as the run names it; None elsewhere.

    Raises:
        ValueError: as `load_run`.
    """

    def __init__(self, run_directory: str | Path, protocol: str | None = None, epsilon: float | None = None):
        epsilon = None if epsilon is None else require_fraction("epsilon", epsilon)
        config = read_config(run_directory)
        rundef = _load_rundef(config, run_directory)
        self.arguments = _resolve(rundef, config["arguments"])
        arguments = self.arguments if protocol is None else _under(protocol, rundef, self.arguments)
        run = rundef.build(playing_arguments(arguments))
        self._sequence = run.sequence
        self._seed = arguments.get("seed", 0)
        self.protocol = run.protocol
        if run.protocol is not None:
            self.protocol = run.protocol.override(evaluation_epsilon=epsilon)
            epsilon = self.protocol.evaluation_epsilon
        self.epsilon = epsilon or 0.0
        self.game = getattr(run.sequence, "game", None)

    @property
    def is_atari(self) -> bool:
        """Whether they are an emulator's."""
        return self.protocol is not None and self.protocol.is_atari

    def make_twin(self, agent, num_envs: int = 1):
        """Returns the evaluation twin that an agent acts in.

        Args:
            agent: of this run.
            num_envs: games played beside each other.

        Raises:
            ValueError: its network doesn't fit the games.
        """
        from dqn_lab.agents.checks import check_fits

        check_fits(agent.network, self._sequence)
        twin = self._sequence.create_validation_instance(self.epsilon, num_envs=num_envs)
        agent.lead(twin)
        twin.reseed(self._seed)
        return twin

    def close(self) -> None:
        """Closes the environments that the run would train in; those of twins stay."""
        self._sequence.close()


def load_run(
    run_directory: str | Path,
    which: str | int = "best",
    num_envs: int = 1,
    protocol: str | None = None,
    epsilon: float | None = None,
) -> SavedRun:
    """Loads a run's agent and builds its environment and front end, by its rundef, without its replay.

    Nothing in the directory is changed, and the run may be going on. The rundef is Python code, and is carried out.

    Args:
        run_directory: of a run that was begun by `dqn-train`, such as runs/catch-seed0.
        which: "best" for the agent of the best evaluation, "latest" for that of the newest checkpoint, or the steps of
            one that was kept; see `load_agent`.
        num_envs: games played beside each other.
        protocol: another one's name, to play under its rules: of what the run's arguments changed in its own protocol
            nothing is left. None for the run's.
        epsilon: share of random actions; None for the protocol's.

    Raises:
        ValueError: there is no such save in the directory, its rundef isn't there, or not as it was, or its games can't
            be played under that protocol.

    Example:

    >>> run = dqn_lab.load_run("runs/catch-seed0")
    >>> run.sequence.simulate_single()
    >>> run.sequence.get_latest_reward()  # [num_envs], raw
    """
    num_envs = require_integer("num_envs", num_envs, least=1)
    read_config(run_directory)
    find_snapshot(run_directory, which)  # refused before anything is built
    games = RunGames(run_directory, protocol, epsilon)
    try:
        agent, snapshot = load_snapshot(run_directory, which)
        return SavedRun(agent, games.make_twin(agent, num_envs), games.arguments, games.protocol, snapshot.steps)
    finally:
        games.close()


def _under(name: str, rundef: Rundef, arguments: Mapping[str, object]) -> dict[str, object]:
    """The arguments under the plain rules of another protocol."""
    protocol = get_protocol(name)
    if "protocol" not in arguments:
        raise ValueError(f"{rundef.name} has no key protocol, so its games have one set of rules. Received: {name}")
    own = get_protocol(arguments["protocol"])
    if protocol.is_atari != own.is_atari:
        kind = "Atari's" if own.is_atari else "classic control's"
        raise ValueError(f"`protocol` must be one of {kind}, as the run's {own.name} is. Received: protocol={name!r}")
    deviating = _DEVIATING_KEYS | ({"epsilon_end"} if protocol.final_epsilon is not None else set())
    return {**arguments, **dict.fromkeys(deviating & arguments.keys()), "protocol": name}


def _load_rundef(config: Mapping[str, object], run_directory: str | Path) -> Rundef:
    """The file that the run was begun with, where it still is; else the rundef of its name."""
    file, name = (str(config.get(key) or "") for key in ("rundef_file", "rundef"))
    if not name and not file:
        raise ValueError(
            "This run was not begun from a rundef: `dqn_lab.load_agent` loads its agent alone. "
            f"Received: run_directory={str(run_directory)!r}"
        )
    try:
        return load_rundef(file if file and Path(file).is_file() else name or file)
    except SettingError as error:  # whoever evaluates named no rundef
        raise ValueError(
            f"The rundef of this run is gone: put its file back. Received: rundef={name!r}, rundef_file={file!r}"
        ) from error


def _resolve(rundef: Rundef, saved: Mapping[str, object]) -> dict[str, object]:
    keys = rundef.keys
    try:
        return rundef.resolve(
            {name: _restored(value, keys[name]) if name in keys else value for name, value in saved.items()}
        )
    except SettingError as error:
        raise ValueError(f"The rundef of this run isn't as it was: {error}") from error


def _restored(value: object, key: Key) -> object:
    """A value as it was before JSON made lists of tuples and texts of infinities."""
    if isinstance(value, list):
        return tuple(value)
    return parse_value(value, key.annotation, key.default) if value in ("inf", "-inf") else value
