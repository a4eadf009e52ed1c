"""A run loaded to play: its agent, its own front end and its arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dqn_lab.arguments import require_choice, require_integer
from dqn_lab.assembly import playing_arguments
from dqn_lab.checkpoint import load_agent
from dqn_lab.rundef import Key, Rundef, load_rundef
from dqn_lab.rundef_values import parse_value


@dataclass(frozen=True)
class SavedRun:
    """A run's agent and the games it was evaluated in.

    Args:
        agent: as `dqn_lab.load_agent` returns it.
        sequence: the twin that the run's own sequence makes for evaluation. It plays the very games of the run's
            evaluations, by the agent's values and with their share of random actions.
        arguments: the run's, by its rundef's keys.
    """

    agent: object
    sequence: object
    arguments: dict[str, object]


def load_run(run_directory: str | Path, which: str = "best", num_envs: int = 1) -> SavedRun:
    """Loads a run's agent and builds its environment and front end, by its rundef, without its replay.

    Nothing in the directory is changed, and the run may be going on. The rundef is Python code, and is carried out.

    Args:
        run_directory: of a run that was begun by `dqn-train`, such as runs/catch-seed0.
        which: "best" for the agent of the best evaluation, "latest" for that of the newest checkpoint.
        num_envs: games played beside each other.

    Raises:
        ValueError: there is no such save in the directory, or its rundef isn't there, or not as it was.

    Example:

    >>> run = dqn_lab.load_run("runs/catch-seed0")
    >>> run.sequence.simulate_single()
    >>> run.sequence.get_latest_reward()  # [num_envs], raw
    """
    require_choice("which", which, ("best", "latest"))
    num_envs = require_integer("num_envs", num_envs, least=1)
    config = _read_config(Path(run_directory))
    rundef = _load_rundef(config, run_directory)
    arguments = _resolve(rundef, config["arguments"])
    run = rundef.build(playing_arguments(arguments))
    try:
        agent = load_agent(run_directory, which)
        return SavedRun(agent, _make_twin(run, agent, num_envs, arguments.get("seed", 0)), arguments)
    finally:
        run.sequence.close()


def _make_twin(run, agent, num_envs: int, seed: int):
    from dqn_lab.agents.checks import check_fits

    check_fits(agent.network, run.sequence)
    epsilon = 0.0 if run.protocol is None else run.protocol.evaluation_epsilon
    twin = run.sequence.create_validation_instance(epsilon, num_envs=num_envs)
    agent.lead(twin)
    twin.reseed(seed)
    return twin


def _read_config(directory: Path) -> dict:
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"A run directory has a config.json. Received: run_directory={str(directory)!r}") from None
    except ValueError:  # no text, or no JSON
        config = None
    if not isinstance(config, dict) or not isinstance(config.get("arguments"), dict):
        raise ValueError(f"config.json isn't that of a run. Received: run_directory={str(directory)!r}")
    return config


def _load_rundef(config: Mapping[str, object], run_directory: str | Path) -> Rundef:
    """The file that the run was begun with, where it still is; else the rundef of its name."""
    file, name = (str(config.get(key) or "") for key in ("rundef_file", "rundef"))
    if not name and not file:
        raise ValueError(
            "This run was not begun from a rundef: `dqn_lab.load_agent` loads its agent alone. "
            f"Received: run_directory={str(run_directory)!r}"
        )
    return load_rundef(file if file and Path(file).is_file() else name or file)


def _resolve(rundef: Rundef, saved: Mapping[str, object]) -> dict[str, object]:
    keys = rundef.keys
    return rundef.resolve(
        {name: _restored(value, keys[name]) if name in keys else value for name, value in saved.items()}
    )


def _restored(value: object, key: Key) -> object:
    """A value as it was before JSON made lists of tuples and texts of infinities."""
    if isinstance(value, list):
        return tuple(value)
    return parse_value(value, key.annotation, key.default) if value in ("inf", "-inf") else value
